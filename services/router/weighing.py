"""What a message is weighed with: the digests of the session's tasks, and meanings where a model gives them.

A task's digest lies in its session. What the task has answered since is added here, when the next message comes: a
session that nobody goes on with costs nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pentad.services.router.domain.rules import Question, Route
from pentad.services.router.domain.scoring import Weights
from pentad.services.router.domain.weighing import is_continuation, weighed
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.session_header import SessionHeader
from pentad.shared.digests.task_digest import (
    Sketch,
    TaskDigest,
    Utterance,
    digest_bytes,
    digest_of,
    read_utterance,
    sketch_of,
)
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys
from pentad.shared.models.ports import ModelFailed
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))


@immutable
class Learnt:
    """What the session remembers of its tasks after a message."""

    digests: dict[str, bytes]
    """By task. What these tasks have answered is part of them now."""


NOTHING = Learnt({})


@immutable
class Weighed:
    """A message weighed against its session's tasks."""

    route: Route
    message: Utterance
    digests: dict[str, TaskDigest]
    """Of the tasks, with what they have answered."""
    changed: frozenset[str]
    """Tasks that have answered since the last message."""

    def learnt(self, route: Route) -> Learnt:
        """What the session is to remember when the message goes this way."""
        kept = {name: self.digests[name] for name in self.changed}
        if route.task is not None:
            kept[route.task.task_id] = self.digests[route.task.task_id].heard(self.message)
        return Learnt({name: digest_bytes(digest) for name, digest in kept.items()})


class Weighing:
    """``embedder``: None where words decide alone. They do as well as a hashing embedding, and cost nothing."""

    def __init__(self, embedder: Embedder | None, weights: Weights) -> None:
        self._embedder, self._weights = embedder, weights

    @property
    def asks_nobody(self) -> bool:
        """Whether a message is weighed in this process alone."""
        return self._embedder is None

    async def weigh(self, question: Question, keys: SessionKeys, content: str, session: SessionHeader) -> Weighed:
        """The likeliest route, and what it rests on."""
        stored = [_stored(session, task) for task in question.tasks]
        message, meanings = read_utterance(content), dict[str, Sketch]()
        if not is_continuation(question, message, stored):
            meanings = await self._meanings(keys, [content, *_answers(session, question.tasks)])
            if meanings:
                message = replace(message, sketch=meanings.get(content))
        digests = {
            task.task_id: _with_answer(digest, session, task, meanings)
            for task, digest in zip(question.tasks, stored, strict=True)
        }
        route = weighed(question, message, [*digests.values()], self._weights)
        return Weighed(route, message, digests, frozenset(digests).intersection(session.answers))

    async def _meanings(self, keys: SessionKeys, texts: Sequence[str]) -> dict[str, Sketch]:
        """By text. Where the model does not answer, words decide."""
        if self._embedder is None:
            return {}
        try:
            found = await self._embedder.embed(texts, Requester(keys.shard, keys.tenant, keys.session))
        except ModelFailed as error:
            _say.warning("embed", "messages are routed without an embedding model: %s", error)
            return {}
        sketches = (sketch_of(found.model, vector) for vector in found.vectors)
        return {text: sketch for text, sketch in zip(texts, sketches, strict=True) if sketch is not None}


def learnt_by_rule(session: SessionHeader, task: TaskHeader, content: str) -> Learnt:
    """What the session remembers when no weighing was needed: the message went to this task."""
    digest = _with_answer(_stored(session, task), session, task, {}).heard(read_utterance(content))
    return Learnt({task.task_id: digest_bytes(digest)})


def _stored(session: SessionHeader, task: TaskHeader) -> TaskDigest:
    """As the last message has left it. A task that has had one message only is what that one said: its goal."""
    kept = session.digests.get(task.task_id)
    found = digest_of(kept) if kept is not None else None
    return found or TaskDigest().heard(read_utterance(task.goal))


def _answers(session: SessionHeader, tasks: Sequence[TaskHeader]) -> list[str]:
    return [session.answers[task.task_id] for task in tasks if task.task_id in session.answers]


def _with_answer(
    digest: TaskDigest, session: SessionHeader, task: TaskHeader, meanings: dict[str, Sketch]
) -> TaskDigest:
    text = session.answers.get(task.task_id)
    return digest if text is None else digest.answering(text, meanings.get(text))
