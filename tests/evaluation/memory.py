"""``make bench-memory DATA=FILE EMBED=simple|local`` (``python -m tests.evaluation.memory``): is the evidence found?

Conversations are cut, written and recalled by the product's own functions over the embedded store, each as a tenant of
its own; no chat model is asked. The last line is JSON. Exit 2 for a file that holds no conversations, and for an
embedding model that fails.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pentad.shared.errors import SettingsError
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.model_makers import make_embedding_model
from pentad.shared.models.ports import ModelFailed
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.evaluation.conversations import RecordedConversation, read_conversations
from tests.evaluation.labelled import UnreadableDataError
from tests.evaluation.recall_figures import recall_json, recall_table
from tests.evaluation.recalling import ArchivedConversation, Recalled

_PATIENCE_S = 120.0
"""Of one call of the store, on a machine that does other things too."""


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evaluation.memory", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="conversations with questions, JSON or gzipped JSON")
    parser.add_argument("--embed", default="simple", help="the embedding, as EMBED_MODEL_TYPE names it")
    return parser.parse_args(argv)


async def recall_all(
    conversations: Sequence[RecordedConversation], model: EmbeddingModel, folder: Path
) -> list[Recalled]:
    """Archive each conversation and ask its questions, one after the other."""
    answers, vectors = [], EdgeVectors(folder, _PATIENCE_S)
    try:
        for number, conversation in enumerate(conversations):
            memory = ArchivedConversation(model, vectors, f"conversation-{number}")
            await memory.archive(conversation)
            answers += [await memory.ask(conversation.id, question) for question in conversation.questions]
    finally:
        await vectors.aclose()
        await model.aclose()
    return answers


def main(argv: Sequence[str]) -> int:
    """Recall, print the table; returns the exit code."""
    options = _options(argv)
    try:
        conversations = read_conversations(options.data)
        model = make_embedding_model(options.embed)
    except (UnreadableDataError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        with TemporaryDirectory() as folder:
            answers = asyncio.run(recall_all(conversations, model, Path(folder)))
    except ModelFailed as error:
        print(f"the embedding model failed: {error}", file=sys.stderr)
        return 2
    print(recall_table(answers))
    print(recall_json(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
