"""Calls of what an archiver has open, over Redis: sent, answered in time or taken back."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from redis.exceptions import RedisError

from pentad.contracts.commands import MemoryReply, MemoryRequest
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import MEMORY, MEMORY_REPLY
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, OutageError
from pentad.shared.memory.memory_calls import MOST_REPLY_BYTES, MOST_REQUEST_BYTES, MemoryCall
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.work.replies import Replies

TIMEOUT_S = 2.0
_MOST_WAITING = 256
"""Calls under way, of one process and port."""
_SHARD = 0
"""There is one memory: its calls all go through the first shard."""


class ArchiverCalls:
    """Makes the calls of one port. ``timeout_s`` bounds each; ``instead``: the setting that names a server instead."""

    def __init__(self, store: Store, calls: Mapping[str, MemoryCall], instead: str, timeout_s: float) -> None:
        self._store, self._calls, self._instead, self._timeout_s = store, calls, instead, timeout_s
        self._replies: Replies[MemoryReply] = Replies(store, MEMORY_REPLY, _SHARD, _read, _unheard)
        self._closed = False

    async def aclose(self) -> None:
        """Close the connection; who waits for an answer gets ``MemoryOutageError``."""
        self._closed = True
        await self._replies.aclose()

    async def make(self, call: str, *args: Any) -> Any:
        """What the call gives back. Raises ``MemoryOutageError`` and ``MemoryRefusedError``."""
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
                f"no archiver answered for the memory in {self._timeout_s:g} s; "
                f"see that one runs, or set {self._instead}"
            ) from None
        except (OutageError, RedisError) as error:
            raise MemoryOutageError(f"the archiver's memory cannot be asked: {error}") from error
        return self._result(call, reply)

    async def _answer(self, call: str, args: Sequence[Any]) -> MemoryReply:
        request = random_hex(32)
        at = rfc3339(await self._store.clock())
        key, answer = self._replies.expect(request)
        try:
            asked = self._request(call, args, request_id=request, at=at, reply_to=key)
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

    def _request(self, call: str, args: Sequence[Any], **about: Any) -> bytes:
        wait_ms = round(self._timeout_s * 1000)
        try:
            given = self._calls[call].given.dump_python(tuple(args), mode="json")
            asked = MemoryRequest(**about, wait_ms=wait_ms, call=call, args=given).to_json()
        except PydanticSerializationError as error:
            raise MemoryRefusedError(f"a call of {call} cannot be written as JSON in UTF-8: {error}") from None
        if len(asked) > MOST_REQUEST_BYTES:
            raise MemoryRefusedError(f"a call of {len(asked)} bytes: {MOST_REQUEST_BYTES} at most; ask for less")
        return asked

    def _take_back(self, sent: "asyncio.Future[bytes]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            self._store.send("XDEL", MEMORY.key(_SHARD), sent.result())

    def _result(self, call: str, reply: MemoryReply) -> Any:
        if reply.error is not None:
            raise (MemoryRefusedError if reply.refused else MemoryOutageError)(reply.error)
        try:
            return self._calls[call].gives.validate_python(reply.result)
        except ValidationError:
            raise MemoryOutageError(
                f"the archiver answered {call} with what is no answer to it: is it of another version?"
            ) from None


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
