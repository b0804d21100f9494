"""One labelled message put through the product's own functions: the rules of words, then the weighing."""

import time
from typing import Literal

from pentad.services.router.domain.continuation import only_continues
from pentad.services.router.domain.control import control_of
from pentad.services.router.domain.scoring import WEIGHTS, Weights, rank_tasks
from pentad.shared.digests.sketch import Sketch
from pentad.shared.digests.stored import digest_bytes, digest_of
from pentad.shared.digests.task_digest import TaskDigest
from pentad.shared.digests.utterance import read_utterance
from pentad.shared.immutable import immutable
from tests.evaluation.embedded_texts import EmbeddedTexts
from tests.evaluation.labelled import NEW, LabelledMessage, LabelledTask

VerdictStage = Literal["rule", "similarity", "open"]
"""``open``: not sure enough to be decided alone; without a model, the score decides."""


@immutable
class Verdict:
    """What routing decided about one message."""

    message: LabelledMessage
    chosen: str
    """A task's id, or `NEW`; '' for what was taken for control."""
    stage: VerdictStage
    candidates: tuple[str, ...]
    """The tasks that a model would be asked about, the most likely first; all of them where it was not needed."""
    seconds: float

    @property
    def right(self) -> bool:
        return self.chosen == self.message.gold

    @property
    def alone(self) -> bool:
        """Decided without a model, as if one were there."""
        return self.stage != "open"


def digest_task(task: LabelledTask, texts: EmbeddedTexts) -> TaskDigest:
    """A task's digest, built turn by turn, and stored and read again after each as the services do."""
    digest = TaskDigest()
    for role, text in task.turns:
        sketch = texts.sketch(text)
        digest = digest.heard(read_utterance(text, sketch)) if role == "user" else digest.answering(text, sketch)
        stored = digest_of(digest_bytes(digest))
        if stored != digest:
            raise AssertionError(f"the digest of task {task.id} is not read as it was stored")
    return digest


async def judge(message: LabelledMessage, texts: EmbeddedTexts, weights: Weights = WEIGHTS) -> Verdict:
    """Decide one message, and measure how long that takes: reading the digests, embedding, weighing."""
    stored = [digest_bytes(digest_task(task, texts)) for task in message.tasks]
    sketch, embedding = await texts.timed(message.text)
    begun = time.perf_counter()
    chosen, stage, candidates = decide_message(message, stored, sketch, weights)
    return Verdict(message, chosen, stage, candidates, embedding + time.perf_counter() - begun)


def decide_message(
    message: LabelledMessage, stored: list[bytes], sketch: Sketch | None, weights: Weights
) -> tuple[str, VerdictStage, tuple[str, ...]]:
    """The task that is chosen, at which stage, and the candidates."""
    names = tuple(task.id for task in message.tasks)
    if control_of(message.text) is not None:
        return "", "rule", names
    digests = [digest_of(each) or TaskDigest() for each in stored]
    utterance = read_utterance(message.text, sketch)
    if len(digests) == 1 and only_continues(utterance, digests[0]):
        return names[0], "rule", names
    ranking = rank_tasks(utterance, digests, weights)
    candidates = tuple(names[chance.rank] for chance in ranking.candidates() if chance.rank is not None)
    chosen = NEW if ranking.best.rank is None else names[ranking.best.rank]
    return chosen, "similarity" if ranking.sure() else "open", candidates
