"""The store of vectors that an archiver has open, asked over Redis: the third adapter of the port `Vectors`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.commands import MemoryReply, MemoryRequest
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import MEMORY, MEMORY_REPLY
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, OutageError
from pentad.shared.memory.ranking import MemoryRanking, RankedMemories
from pentad.shared.memory.vector_calls import (
    CALLS,
    MOST_REPLY_BYTES,
    MOST_REQUEST_BYTES,
    POINTS_AT_ONCE,
    FoundHits,
    unpacked,
)
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.vectors.checked import CheckedVectors
from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery
from pentad.shared.work.replies import Replies

TIMEOUT_S = 2.0
_MOST_WAITING = 256
"""Calls under way, of one process."""
_SHARD = 0
"""There is one memory: its calls all go through the first shard."""


class ArchiverVectors(CheckedVectors):
    """See `Vectors`. ``timeout_s`` bounds a call; one that ends without an answer is taken back."""

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._store, self._timeout_s = store, timeout_s
        self._replies: Replies[MemoryReply] = Replies(store, MEMORY_REPLY, _SHARD, _read, _unheard)
        self._closed = False

    async def aclose(self) -> None:
        """Close the connection; who waits for an answer gets ``MemoryOutageError``."""
        self._closed = True
        await self._replies.aclose()

    async def rank(self, collection: str, asked: MemoryRanking) -> RankedMemories:
        """See `RankingVectors`."""
        check_name(collection)
        ranked: RankedMemories = await self._call("rank", collection, asked)
        return ranked

    async def _upsert(self, collection: str, points: Sequence[Point]) -> None:
        for begin in range(0, len(points), POINTS_AT_ONCE):
            await self._call("upsert", collection, list(points[begin : begin + POINTS_AT_ONCE]))

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        found: FoundHits = await self._call("search", collection, list(queries))
        try:
            return unpacked(found)
        except KeyError as missing:
            raise MemoryOutageError(f"the archiver told nothing of the point {missing}: try again later") from None

    async def _call(self, call: str, *args: Any) -> Any:
        if self._closed:
            raise MemoryOutageError("the connection to the archiver's memory is closed")
        if self._replies.waiting >= _MOST_WAITING:
            raise MemoryOutageError(f"{_MOST_WAITING} calls wait for the archiver's memory: try again later")
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                reply = await self._answer(call, args)
        except TimeoutError:
            if not limit.expired():
                raise
            raise MemoryOutageError(
                f"no archiver answered for the memory in {self._timeout_s:g} s; see that one runs, or set QDRANT_URL"
            ) from None
        except (OutageError, RedisError) as error:
            raise MemoryOutageError(f"the archiver's memory cannot be asked: {error}") from error
        return _result(call, reply)

    async def _answer(self, call: str, args: Sequence[Any]) -> MemoryReply:
        request = random_hex(32)
        given = CALLS[call].given.dump_python(tuple(args), mode="json")
        at = rfc3339(await self._store.clock())
        key, answer = self._replies.expect(request)
        try:
            wait_ms = round(self._timeout_s * 1000)
            asked = MemoryRequest(
                request_id=request, at=at, wait_ms=wait_ms, call=call, args=given, reply_to=key
            ).to_json()
            if len(asked) > MOST_REQUEST_BYTES:
                raise MemoryRefusedError(f"a call of {len(asked)} bytes: {MOST_REQUEST_BYTES} at most; ask for less")
            sending = asyncio.ensure_future(self._store.call("XADD", MEMORY.key(_SHARD), "*", "data", asked))
            try:
                await asyncio.shield(sending)
                metrics.published.labels(MEMORY.name, MemoryRequest.__name__).inc()
                return await answer
            except BaseException:
                sending.add_done_callback(self._take_back)
                raise
        finally:
            self._replies.forget(request)

    def _take_back(self, sent: "asyncio.Future[bytes]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            self._store.send("XDEL", MEMORY.key(_SHARD), sent.result())


def _read(data: bytes) -> tuple[str, MemoryReply] | None:
    if len(data) > MOST_REPLY_BYTES:
        return None
    try:
        reply = MemoryReply.model_validate_json(data)
    except ValidationError:
        return None
    return reply.request_id, reply


def _unheard(why: str) -> MemoryOutageError:
    return MemoryOutageError(f"the archiver's memory cannot be heard: {why}")


def _result(call: str, reply: MemoryReply) -> Any:
    if reply.error is not None:
        raise (MemoryRefusedError if reply.refused else MemoryOutageError)(reply.error)
    try:
        return CALLS[call].gives.validate_python(reply.result)
    except ValidationError:
        raise MemoryOutageError(
            f"the archiver answered {call} with what is no answer to it: is it of another version?"
        ) from None
