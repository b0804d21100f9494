"""The working memory for clients: the messages of one conversation's current tasks, read from Redis."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pentad.contracts.ids import milliseconds
from pentad.contracts.memories import MemoryStats
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.sessions import load_tasks
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.memory.points import CutTask, cut_task
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.working_memory import MOST_BYTES, MOST_ENTRIES, MOST_TASKS, working_hits
from pentad.shared.owners import Owner
from pentad.shared.segments.passages import owned
from pentad.shared.store.store import Store

_ENTRY_CHUNK = 16
"""Entries that are read at a time: one may have a megabyte."""


class LiveMemory:
    """Reads the newest tasks of a conversation that are not archived. Raises ``OutageError``."""

    def __init__(self, store: Store, queries: Queries) -> None:
        self._store, self._queries = store, queries

    async def search(self, keys: SessionKeys, user: str | None, question: str, limit: int) -> list[MemoryHit]:
        """Return the hits in turns without a user and in turns of this user, the best first."""
        asked = MemoryQuestion(
            Owner(keys.tenant, user, keys.session), question, limit, milliseconds(await self._store.now())
        )
        return await asyncio.to_thread(working_hits, asked, await self._tasks(keys))

    async def counts(self, keys: SessionKeys) -> MemoryStats:
        """Return the numbers of segments and tasks of the conversation, of all users."""
        tasks = await self._tasks(keys)
        return MemoryStats(segments=sum(len(task.segments) for task in tasks), tasks=len(tasks))

    async def _tasks(self, keys: SessionKeys) -> list[CutTask]:
        names = (await self._queries.candidates(keys))[:MOST_TASKS]
        headers = await load_tasks(self._store, keys.shard, keys.tenant, names)
        cut, left = list[CutTask](), MOST_BYTES
        for header in headers:
            if header is not None and left > 0:
                raw, before = await self._newest(TaskKeys(keys.shard, keys.tenant, header.task_id), left)
                left -= sum(map(len, raw))
                cut.append(await asyncio.to_thread(_cut, keys, header, raw, before))
        return cut

    async def _newest(self, keys: TaskKeys, most_bytes: int) -> tuple[list[bytes], int]:
        """Return the last entries of a transcript, about so many bytes, and the number of entries before them."""
        begin = int(await self._store.call("LLEN", keys.log))
        least, raw, size = max(0, begin - MOST_ENTRIES), list[bytes](), 0
        while begin > least and size < most_bytes:
            end, begin = begin, max(least, begin - _ENTRY_CHUNK)
            older: Sequence[bytes] = await self._store.call("LRANGE", keys.log, begin, end - 1)
            raw, size = [*older, *raw], size + sum(map(len, older))
        return raw, begin


def _cut(keys: SessionKeys, header: TaskHeader, raw: Sequence[bytes], before: int) -> CutTask:
    messages = _at_their_places([shown(entry) for entry in raw], before)
    return cut_task(keys.tenant, header.task_id, keys.session, owned(messages, header.user))


def _at_their_places(newest: list[dict[str, Any]], before: int) -> list[dict[str, Any]]:
    """Return the newest entries after as many empty ones as come before them, because anchors count all entries.

    The first message of a turn says whose it is: if it is not among the newest entries, the turn's entries are empty,
    too.
    """
    begin = next((n for n, message in enumerate(newest) if message.get("role") == "user"), len(newest)) if before else 0
    return [*({} for _ in range(before + begin)), *newest[begin:]]
