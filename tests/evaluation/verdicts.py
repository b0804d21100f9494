"""One labelled message put through the product's own functions: the rules of words, then the weighing."""

import time
from collections.abc import Awaitable, Callable
from typing import Literal, cast

from pentad.services.router.domain.control_words import control_of
from pentad.services.router.domain.rules import Question, Route
from pentad.services.router.domain.scoring import WEIGHTS, Weights
from pentad.services.router.domain.similarity import is_sure, route_by_similarity
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.opening import goal_of
from pentad.shared.digests.task_digest import TaskDigest, digest_bytes, digest_of, read_utterance
from pentad.shared.immutable import immutable
from tests.evaluation.embedded_texts import EmbeddedTexts
from tests.evaluation.labelled import NEW, LabelledMessage, LabelledTask

VerdictStage = Literal["rule", "similarity", "open", "model"]
"""``open``: not sure enough to be decided alone, and no model decided: the score does."""
Confirming = Callable[[Question, Route, LabelledMessage], Awaitable[Route]]
"""Asks a model about a route that is not sure."""


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
        return self.stage in ("rule", "similarity")


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


class Judge:
    """Decides messages. ``confirming``: the model that is asked where the words are not sure; None: words decide."""

    def __init__(self, texts: EmbeddedTexts, weights: Weights = WEIGHTS, confirming: Confirming | None = None) -> None:
        self._texts, self._weights, self._confirming = texts, weights, confirming

    async def decide(self, message: LabelledMessage) -> Verdict:
        """Decide one message, and measure how long that takes: reading the digests, embedding, weighing, asking."""
        stored = [digest_bytes(digest_task(task, self._texts)) for task in message.tasks]
        sketch, embedding = await self._texts.timed(message.text)
        begun = time.perf_counter()
        if control_of(message.text) is not None:
            return Verdict(message, "", "rule", tuple(task.id for task in message.tasks), embedding)
        question = Question(tuple(_header(task) for task in message.tasks))
        digests = [digest_of(each) or TaskDigest() for each in stored]
        route = route_by_similarity(question, read_utterance(message.text, sketch), digests, self._weights)
        candidates, stage = tuple(route.candidates), "rule" if route.stage == "rule" else "similarity"
        if not is_sure(route):
            stage = "open"
            if self._confirming is not None:
                route = await self._confirming(question, route, message)
                stage = "model" if route.stage == "model" else "open"
        chosen = NEW if route.task is None else route.task.task_id
        return Verdict(message, chosen, cast(VerdictStage, stage), candidates, embedding + time.perf_counter() - begun)


def _header(task: LabelledTask) -> TaskHeader:
    goal = next((text for role, text in task.turns if role == "user"), "")
    return TaskHeader("default", task.id, "s", "active", goal=goal_of(goal))
