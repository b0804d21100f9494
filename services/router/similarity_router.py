"""Compares a message with the digests of the session's tasks, and with their embeddings where a model gives them.

A task's digest is stored in its session. The task's answers since then are added here when the next message comes, so
a session that gets no further message costs nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pentad.services.router.domain.rules import Question, Route
from pentad.services.router.domain.scoring import Weights
from pentad.services.router.domain.similarity import is_continuation, route_by_similarity
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

_throttled = ThrottledLog(logging.getLogger(__name__))


@immutable
class DigestUpdates:
    """Digests of tasks that the session stores after a message."""

    digests: dict[str, bytes]
    """Digests by task id; each covers what its task has answered."""


NO_UPDATES = DigestUpdates({})


@immutable
class WeighedMessage:
    """A message after its comparison with the session's tasks."""

    route: Route
    message: Utterance
    digests: dict[str, TaskDigest]
    """Digests by task id, with what each task has answered."""
    changed: frozenset[str]
    """Ids of tasks that have answered since the last message."""

    def updates(self, route: Route) -> DigestUpdates:
        """The digests to store when the message takes this route."""
        kept = {name: self.digests[name] for name in self.changed}
        if route.task is not None:
            kept[route.task.task_id] = self.digests[route.task.task_id].heard(self.message)
        return DigestUpdates({name: digest_bytes(digest) for name, digest in kept.items()})


class SimilarityRouter:
    """Routes a message to the most similar task.

    ``embedder``: None where words decide alone, which is as good as a hashing embedding and costs nothing.
    """

    def __init__(self, embedder: Embedder | None, weights: Weights) -> None:
        self._embedder, self._weights = embedder, weights

    @property
    def is_local(self) -> bool:
        """Whether messages are compared in this process alone, without an embedding model."""
        return self._embedder is None

    async def weigh(
        self, question: Question, keys: SessionKeys, content: str, session: SessionHeader
    ) -> WeighedMessage:
        """Compare a message with the tasks of the question, and choose the likeliest route."""
        stored = [_stored_digest(session, task) for task in question.tasks]
        message, meanings = read_utterance(content), dict[str, Sketch]()
        if not is_continuation(question, message, stored):
            meanings = await self._meanings(keys, [content, *_answers(session, question.tasks)])
            if meanings:
                message = replace(message, sketch=meanings.get(content))
        digests = {
            task.task_id: _digest_with_answer(digest, session, task, meanings)
            for task, digest in zip(question.tasks, stored, strict=True)
        }
        route = route_by_similarity(question, message, [*digests.values()], self._weights)
        return WeighedMessage(route, message, digests, frozenset(digests).intersection(session.answers))

    async def _meanings(self, keys: SessionKeys, texts: Sequence[str]) -> dict[str, Sketch]:
        """Embed these texts; the sketches by text. Empty where the model does not answer: then words decide."""
        if self._embedder is None:
            return {}
        try:
            found = await self._embedder.embed(texts, Requester(keys.shard, keys.tenant, keys.session))
        except ModelFailed as error:
            _throttled.warning("embed", "messages are routed without an embedding model: %s", error)
            return {}
        sketches = (sketch_of(found.model, vector) for vector in found.vectors)
        return {text: sketch for text, sketch in zip(texts, sketches, strict=True) if sketch is not None}


def updates_by_rule(session: SessionHeader, task: TaskHeader, content: str) -> DigestUpdates:
    """The digest to store when a rule has sent the message to this task, without a comparison."""
    digest = _digest_with_answer(_stored_digest(session, task), session, task, {}).heard(read_utterance(content))
    return DigestUpdates({task.task_id: digest_bytes(digest)})


def _stored_digest(session: SessionHeader, task: TaskHeader) -> TaskDigest:
    """The task's digest as of the last message; one of its goal when the task has had a single message."""
    kept = session.digests.get(task.task_id)
    found = digest_of(kept) if kept is not None else None
    return found or TaskDigest().heard(read_utterance(task.goal))


def _answers(session: SessionHeader, tasks: Sequence[TaskHeader]) -> list[str]:
    return [session.answers[task.task_id] for task in tasks if task.task_id in session.answers]


def _digest_with_answer(
    digest: TaskDigest, session: SessionHeader, task: TaskHeader, meanings: dict[str, Sketch]
) -> TaskDigest:
    text = session.answers.get(task.task_id)
    return digest if text is None else digest.answering(text, meanings.get(text))
