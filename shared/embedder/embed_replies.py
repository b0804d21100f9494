"""The answers of the embedding service in one shard: one stream and one reader for all who wait for some.

A stream is used for as long as somebody waits, over one connection: what comes later reaches nobody and ends by its
TTL, and no id of a history that Redis has lost can hide an answer of the next.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from pentad.contracts.commands import EmbedReply
from pentad.contracts.streams import EMBED_REPLY
from pentad.shared.cancelling import cancel_all
from pentad.shared.embedder.vectors import read_reply
from pentad.shared.errors import OutageError
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.random_hex import random_hex
from pentad.shared.seldom import Seldom
from pentad.shared.store.store import Store
from pentad.shared.store.wire import Wire
from pentad.shared.work.entry import data_of

_say = Seldom(logging.getLogger(__name__))

_BLOCK_MS = 1000
_SILENT_S = 3.0
"""A connection that leaves a read unanswered for so long, the time that it waits included, is given up."""
_AT_ONCE = 16
"""Answers of one read: each may be as large as one may be."""

Answer = asyncio.Future[EmbedReply]


class EmbedReplies:
    """Reads while somebody waits. Not for more than one event loop."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store, self._shard = store, shard
        self._wire = Wire(store.url, _SILENT_S)
        """Its own: whatever is asked behind a read that waits, waits with it."""
        self._waiting: dict[str, Answer] = {}
        self._key = ""
        self._reader: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many answers are waited for."""
        return len(self._waiting)

    def expect(self, request: str) -> tuple[str, Answer]:
        """The stream that the answer to this request shall come to, and the answer. `forget` it in the end.

        The answer raises ``ModelUnavailable`` when it cannot be heard any more.
        """
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting[request] = answer
        if self._reader is None:
            self._key = EMBED_REPLY.key(self._shard, reply=random_hex(32))
            self._reader = asyncio.create_task(self._read(self._key), name=f"embed-replies-{self._shard}")
        return self._key, answer

    def forget(self, request: str) -> None:
        """Nobody waits for this answer any more: when it comes, it is dropped."""
        answer = self._waiting.pop(request, None)
        if answer is not None:
            answer.cancel()

    async def aclose(self) -> None:
        """Stop reading; who waits gets ``ModelUnavailable``."""
        if self._reader is not None:
            await cancel_all([self._reader])
        await self._wire.close()

    async def _read(self, key: str) -> None:
        why = "its client was closed"
        try:
            await self._hand_over(key)
        except (OutageError, RedisError) as error:
            why = str(error)
        finally:
            self._end(ModelUnavailable(f"the embedding service cannot be heard: {why}"))
            self._reader = None
            self._store.send("DEL", key)

    async def _hand_over(self, key: str) -> None:
        after: Any = b"0-0"
        opened = None
        while self._waiting:
            command = ("XREAD", "COUNT", _AT_ONCE, "BLOCK", _BLOCK_MS, "STREAMS", key, after)
            reply: Sequence[Any] = await self._store.read(self._wire, *command) or ()
            if opened not in (None, self._wire.opened):
                raise OutageError("the connection was replaced: answers that came meanwhile may be missing")
            opened = self._wire.opened
            for _, entries in reply:
                for after, fields in entries:  # noqa: B007 - the last one read counts
                    self._answer(data_of(fields))
                self._wire.tell("XTRIM", key, "MINID", after)

    def _answer(self, data: bytes) -> None:
        reply = read_reply(data)
        if reply is None:
            _say.warning("unreadable", "an answer of the embedding service cannot be read and is dropped")
            return
        answer = self._waiting.pop(reply.causation_id or "", None)
        if answer is not None and not answer.done():
            answer.set_result(reply)

    def _end(self, error: ModelUnavailable) -> None:
        """Whoever still waits is told why."""
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # heard: its caller may be gone
