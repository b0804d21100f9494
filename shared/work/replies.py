"""The answers to one process's requests in one shard: one stream and one reader for all who wait for some.

A stream is used for as long as somebody waits, over one connection: what comes later reaches nobody and ends by its
TTL, and no id of a history that Redis has lost can hide an answer of the next.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from redis.exceptions import RedisError

from pentad.contracts.streams import Stream
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all, turn_after
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.store.wire import Wire
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.entry import data_of

R = TypeVar("R")

_say = ThrottledLog(logging.getLogger(__name__))

_BLOCK_MS = 1000
_SILENT_S = 3.0
"""A connection that leaves a read unanswered for so long, the time that it waits included, is given up."""
_IDLE_S = 2.0
"""A connection over which nobody has waited for so long is closed."""
_REPLIES_PER_READ = 16
"""Answers of one read: each may be as large as one may be."""

Read = Callable[[bytes], tuple[str, R] | None]
"""Which request is answered, and the answer; None for what nobody can read."""
Heard = Callable[[R], bool]
"""Takes a piece of an answer, and says whether it is the last."""


class Replies(Generic[R]):
    """Reads while somebody waits. Not for more than one event loop."""

    def __init__(
        self, store: Store, stream: Stream, shard: int, read: Read[R], unheard: Callable[[str], Exception]
    ) -> None:
        """``unheard``: the error of those whose answer cannot come any more, from what is wrong."""
        self._store, self._stream, self._shard, self._read_one, self._unheard = store, stream, shard, read, unheard
        self._wire = Wire(store.url, _SILENT_S)
        """A connection of its own: commands behind a read that blocks would wait with it."""
        self._led_by = 0
        """The store's connection at the time: with the next one Redis may be another server."""
        self._idling: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[R]] = {}
        self._heard: dict[str, Heard[R]] = {}
        self._key = ""
        self._reader: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many answers are waited for."""
        return len(self._waiting)

    def expect(self, request: str, heard: Heard[R] | None = None) -> "tuple[str, asyncio.Future[R]]":
        """The stream that the answer to this request shall come to, and the answer. `forget` it in the end.

        The answer raises `unheard`'s error when it cannot be heard any more. ``heard``: gets each piece of an answer
        that comes in several, and says whether it was the last.
        """
        if heard is not None:
            self._heard[request] = heard
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting[request] = answer
        if self._reader is None:
            if self._idling is not None:
                self._idling.cancel()
            self._key = self._stream.key(self._shard, reply=random_hex(32))
            self._reader = asyncio.create_task(self._read(self._key), name=f"{self._stream.name}-{self._shard}")
        return self._key, answer

    def forget(self, request: str) -> None:
        """Stop waiting for an answer: when it comes, it is dropped."""
        self._heard.pop(request, None)
        answer = self._waiting.pop(request, None)
        if answer is not None:
            answer.cancel()

    async def aclose(self) -> None:
        """Stop reading; who waits gets `unheard`'s error."""
        if self._reader is not None:
            await cancel_all([self._reader])
        if self._idling is not None:
            await cancel_all([self._idling])
        await self._wire.close()

    async def _read(self, key: str) -> None:
        why = "its client was closed"
        try:
            await self._hand_over(key)
        except (OutageError, RedisError) as error:
            why = str(error)
        finally:
            self._end(self._unheard(why))
            self._reader = None
            self._store.send("DEL", key)
            self._idling = asyncio.create_task(self._close_when_idle(), name=f"{self._stream.name}-idle")

    async def _close_when_idle(self) -> None:
        await asyncio.sleep(_IDLE_S)
        await self._wire.close()

    async def _hand_over(self, key: str) -> None:
        """Read until nobody waits. Raises ``OutageError`` when the answers may come to another server by now."""
        after: Any = b"0-0"
        opened = None
        if self._led_by != self._store.connection:
            await self._wire.close()
            self._led_by = self._store.connection
        while self._waiting:
            command = ("XREAD", "COUNT", _REPLIES_PER_READ, "BLOCK", _BLOCK_MS, "STREAMS", key, after)
            reply: Sequence[Any] = await self._store.read(self._wire, *command) or ()
            if opened not in (None, self._wire.opened):
                raise OutageError("the connection was replaced: answers that came meanwhile may be missing")
            if self._led_by and self._led_by != self._store.connection:
                raise OutageError("Redis may be another server by now: answers may go there")
            opened = self._wire.opened
            for _, entries in reply:
                for after, fields in entries:  # noqa: B007 - the last one read counts
                    data = data_of(fields)
                    self._answer(data)
                    await turn_after(len(data))
                self._wire.tell("XTRIM", key, "MINID", after)

    def _answer(self, data: bytes) -> None:
        read = self._read_one(data)
        if read is None:
            _say.warning(self._stream.name, "an answer in %s cannot be read and is dropped", self._stream.name)
            return
        request, reply = read
        heard = self._heard.get(request)
        if heard is not None and not heard(reply):
            return
        answer = self._waiting.pop(request, None)
        if answer is not None and not answer.done():
            answer.set_result(reply)

    def _end(self, error: Exception) -> None:
        """Whoever still waits is told why."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # heard: its caller may be gone
