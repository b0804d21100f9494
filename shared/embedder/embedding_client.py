"""Asks the embedding service over Redis, and waits a short time for its answer."""

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from pentad.contracts.commands import EmbedCommand, EmbedReply
from pentad.contracts.streams import EMBED, EMBED_REPLY
from pentad.shared import metrics
from pentad.shared.embedder.vectors import (
    TEXTS_PER_REPLY,
    Embedded,
    Requester,
    batched,
    embedded,
    joined,
    read_reply,
    sendable,
)
from pentad.shared.errors import OutageError
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.work.replies import Replies

TIMEOUT_S = 2.0
_MAX_WAITING = 512
"""Requests that one process may have under way in one shard: they wait in the stream when no service is there."""


class EmbeddingClient:
    """A client for any number of requests at once, over one stream of answers for each shard.

    ``timeout_s`` bounds a request. A request that ends without an answer is taken back, so that a later service does
    no work for it.
    """

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._store, self._timeout_s = store, timeout_s
        self._shards: dict[int, Replies[EmbedReply]] = {}

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        """Return one vector per text. Raises ``ModelRefused`` or ``ModelUnavailable``; see `Embedder`."""
        if not texts:
            return Embedded("", [])
        parts = list(batched(sendable(texts), TEXTS_PER_REPLY))
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                answered = [embedded(await self._ask(part, requester), len(part)) for part in parts]
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelUnavailable(
                f"the embedding service did not answer in {self._timeout_s:g} s; see that one runs"
            ) from None
        except (OutageError, RedisError) as error:
            raise ModelUnavailable(f"the embedding service cannot be asked: {error}") from error
        return joined(answered)

    async def aclose(self) -> None:
        """Close the connections; callers that wait for an answer get ``ModelUnavailable``."""
        shards, self._shards = self._shards, {}
        await asyncio.gather(*(replies.aclose() for replies in shards.values()))

    async def _ask(self, texts: Sequence[str], requester: Requester) -> EmbedReply:
        replies = self._replies(requester.shard)
        request = random_hex(32)
        at = await self._store.now()
        key, answer = replies.expect(request)
        command = EmbedCommand(event_id=request, at=at, **requester.fields(), texts=list(texts), reply_to=key)
        stream = EMBED.key(requester.shard)
        sending = asyncio.ensure_future(self._store.call("XADD", stream, "*", "data", command.to_json()))
        try:
            await asyncio.shield(sending)
            metrics.published.labels(EMBED.name, EmbedCommand.__name__).inc()
            return await answer
        except BaseException:
            sending.add_done_callback(lambda sent: self._take_back(stream, sent))
            raise
        finally:
            replies.forget(request)

    def _take_back(self, stream: str, sent: "asyncio.Future[bytes]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            self._store.send("XDEL", stream, sent.result())

    def _replies(self, shard: int) -> Replies[EmbedReply]:
        replies = self._shards.get(shard)
        if replies is None:
            replies = self._shards[shard] = Replies(self._store, EMBED_REPLY, shard, _read, _unheard)
        if replies.waiting >= _MAX_WAITING:
            raise ModelUnavailable(f"{_MAX_WAITING} requests wait for the embedding service: try again later")
        return replies


def _read(data: bytes) -> tuple[str, EmbedReply] | None:
    reply = read_reply(data)
    return None if reply is None else (reply.causation_id or "", reply)


def _unheard(why: str) -> ModelUnavailable:
    return ModelUnavailable(f"the embedding service cannot be heard: {why}")
