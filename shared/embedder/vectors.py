"""Requests for vectors and their replies, each within its bounds. Pure."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import EmbedReply
from pentad.shared.immutable import immutable
from pentad.shared.models.embeddings import MAX_ABSOLUTE_VALUE, MAX_DIMENSIONS
from pentad.shared.models.ports import ModelRefused, ModelUnavailable


@immutable
class Requester:
    """The session or task that wants vectors. Its shard carries the request."""

    shard: int
    tenant: str
    session: str
    task: str | None = None
    correlation: str | None = None
    """The ``message_id`` of the user's message whose turn the request belongs to."""
    cause: str | None = None
    """The id of the direct cause: a step, an inbound entry."""
    cached_for: str | None = None
    """The user or session that shares the cached vectors of these texts; None for the session."""

    def fields(self) -> dict[str, Any]:
        """Return the requester as fields of an envelope."""
        return {
            "tenant_id": self.tenant,
            "session_id": self.session,
            "task_id": self.task,
            "correlation_id": self.correlation,
            "causation_id": self.cause,
            "cached_for": self.cached_for,
        }


MAX_REQUEST_TEXTS = 256
"""Texts that one request may have."""
TEXTS_PER_REPLY = 64
"""Texts whose vectors come in one reply: to write and to read so many of the greatest length takes 30 ms each, while
an event loop waits."""
_MAX_REQUEST_BYTES = 1 << 20
"""Bytes that the texts of one request may have together, as UTF-8."""
MAX_REPLY_BYTES = 8 << 20
"""Bytes that one reply may have: so many vectors, each of the greatest length."""


@immutable
class Embedded:
    """Vectors in the order of the texts, all of one length.

    Vectors of models with different names must not be compared.
    """

    model: str
    vectors: list[list[float]]


def content_key(model: str, tenant: str, cached_for: str, text: str) -> str:
    """Return the name under which a text's vector is cached: by the model, the content, and the tenant's user or
    session."""
    return hashlib.sha256(f"{model}\0{tenant}\0{cached_for}\0{text}".encode()).hexdigest()


def cache_of_task(task: str) -> str:
    """Return the sharer of the vectors that are cached while a task is learned from.

    Its name has a space, which the name of a user or a session never has.
    """
    return f"task {task}"


def sendable(texts: Sequence[str]) -> list[str]:
    """Return texts as they can be sent: a lone surrogate counts as `?`. Raises ``ModelRefused`` for too many texts."""
    if len(texts) > MAX_REQUEST_TEXTS:
        raise ModelRefused(f"{len(texts)} texts at once: embed {MAX_REQUEST_TEXTS} at most, and the others after them")
    encoded = [text.encode("utf-8", "replace") for text in texts]
    size = sum(map(len, encoded))
    if size > _MAX_REQUEST_BYTES:
        raise ModelRefused(
            f"texts of {size} bytes at once: embed {_MAX_REQUEST_BYTES} at most, and the others after them"
        )
    return [text.decode() for text in encoded]


def batched(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Yield the texts in batches of at most so many."""
    for begin in range(0, len(texts), most):
        yield texts[begin : begin + most]


def joined(parts: Sequence[Embedded]) -> Embedded:
    """Return the vectors of several replies as those of one. Raises ``ModelUnavailable`` where the model was changed
    between two."""
    if len({(part.model, len(part.vectors[0])) for part in parts}) != 1:
        raise ModelUnavailable("the embedding model was changed while it was asked: ask again")
    return Embedded(parts[0].model, [vector for part in parts for vector in part.vectors])


def read_reply(data: bytes) -> EmbedReply | None:
    """Read a reply of the embedding service; None when it is unreadable."""
    if len(data) > MAX_REPLY_BYTES:
        return None
    try:
        return EmbedReply.model_validate_json(data)
    except ValidationError:
        return None


def embedded(reply: EmbedReply, count: int) -> Embedded:
    """Return the vectors of ``count`` texts.

    Raises ``ModelRefused`` for the model's refusal and for a reply without such vectors, and ``ModelUnavailable``
    where the model refuses every text.
    """
    if reply.error is not None and reply.refuses_all:
        raise ModelUnavailable(f"the embedding model refuses every request: {reply.error}")
    if reply.error is not None:
        raise ModelRefused(reply.error)
    lengths = {len(vector) for vector in reply.vectors}
    if len(reply.vectors) != count or len(lengths) != 1 or not 1 <= lengths.pop() <= MAX_DIMENSIONS:
        got = f"{len(reply.vectors)} vectors for {count} texts, or unlike ones"
        raise ModelRefused(f"the embedding service answered {got}")
    if any(max(map(abs, vector)) > MAX_ABSOLUTE_VALUE for vector in reply.vectors):
        raise ModelRefused("the embedding service answered vectors with numbers that are too large")
    return Embedded(reply.model, reply.vectors)
