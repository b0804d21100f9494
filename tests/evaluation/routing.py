"""``make eval-routing DATA=FILE`` (``python -m tests.evaluation.routing``): how often is a message's task found?

Every message goes through the product's own functions. The last line is JSON. Exit 2 for a file that holds no labelled
messages, and for an embedding model that fails.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pentad.services.router.domain.scoring import WEIGHTS, Weights
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.model_makers import make_embedding_model
from pentad.shared.models.ports import ModelFailed
from tests.evaluation.confirming import ConfiguredModel
from tests.evaluation.embedded_texts import EmbeddedTexts
from tests.evaluation.figures import json_line, table_of
from tests.evaluation.labelled import LabelledMessage, UnreadableDataError, read_labelled
from tests.evaluation.verdicts import Judge, Verdict


@immutable
class RoutingOptions:
    """What is evaluated."""

    data: Path
    embed: str
    recency: float
    model: str | None
    predictions: Path | None


def _options(argv: Sequence[str]) -> RoutingOptions:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.routing", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="labelled messages, JSON or gzipped JSON")
    parser.add_argument("--embed", default="simple", help="the embedding, as EMBED_MODEL_TYPE names it")
    parser.add_argument("--model", help="a chat model of PENTAD_MODELS, or `default`, asked where words are not sure")
    parser.add_argument("--recency", type=float, default=WEIGHTS.recency, help="the weight of recency")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write what was decided there, by item")
    given = parser.parse_args(argv)
    return RoutingOptions(given.data, given.embed, given.recency, given.model, given.predictions)


async def evaluate(
    messages: Sequence[LabelledMessage],
    model: EmbeddingModel | None,
    weights: Weights,
    confirming: ConfiguredModel | None = None,
) -> list[Verdict]:
    """Decide each message, one after the other."""
    texts = EmbeddedTexts(model)
    try:
        await texts.learn(text for message in messages for task in message.tasks for _, text in task.turns)
        judge = Judge(texts, weights, confirming.confirm if confirming is not None else None)
        return [await judge.decide(message) for message in messages]
    finally:
        if model is not None:
            await model.aclose()
        if confirming is not None:
            await confirming.aclose()


def main(argv: Sequence[str]) -> int:
    """Evaluate, print the table; returns the exit code."""
    options = _options(argv)
    try:
        messages = read_labelled(options.data)
        model = None if options.embed == "simple" else make_embedding_model(options.embed)
        confirming = None if options.model is None else ConfiguredModel(options.model)
    except (UnreadableDataError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        verdicts = asyncio.run(evaluate(messages, model, Weights(recency=options.recency), confirming))
    except ModelFailed as error:
        print(f"the embedding model failed: {error}", file=sys.stderr)
        return 2
    if options.predictions is not None:
        chosen = {verdict.message.id: verdict.chosen for verdict in verdicts}
        options.predictions.write_text(json.dumps(chosen) + "\n")
    print(table_of(verdicts))
    print(json_line(verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
