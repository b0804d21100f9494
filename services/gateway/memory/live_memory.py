"""The working memory for clients: what is said in one conversation now, read from its tasks in Redis."""

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
from pentad.shared.memory.search import MemoryHit, MemoryQuestion
from pentad.shared.memory.working_memory import MOST_BYTES, MOST_ENTRIES, MOST_TASKS, working_hits
from pentad.shared.owners import Owner
from pentad.shared.segments.passages import owned
from pentad.shared.store.store import Store

_AT_ONCE = 16
"""Entries that are read at once: one may have a megabyte."""


class LiveMemory:
    """Reads the newest of a conversation's tasks that have not been archived. Raises ``OutageError``."""

    def __init__(self, store: Store, queries: Queries) -> None:
        self._store, self._queries = store, queries

    async def search(self, keys: SessionKeys, user: str | None, question: str, limit: int) -> list[MemoryHit]:
        """What is said in it now without a user, and what the user says and is told who is named; the best first."""
        asked = MemoryQuestion(
            Owner(keys.tenant, user, keys.session), question, limit, milliseconds(await self._store.now())
        )
        return await asyncio.to_thread(working_hits, asked, await self._tasks(keys))

    async def counts(self, keys: SessionKeys) -> MemoryStats:
        """How many segments and tasks it has, of all users."""
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
        """The last entries of a transcript, of about so many bytes, and how many stand before them."""
        begin = int(await self._store.call("LLEN", keys.log))
        least, raw, size = max(0, begin - MOST_ENTRIES), list[bytes](), 0
        while begin > least and size < most_bytes:
            end, begin = begin, max(least, begin - _AT_ONCE)
            older: Sequence[bytes] = await self._store.call("LRANGE", keys.log, begin, end - 1)
            raw, size = [*older, *raw], size + sum(map(len, older))
        return raw, begin


def _cut(keys: SessionKeys, header: TaskHeader, raw: Sequence[bytes], before: int) -> CutTask:
    messages = _at_their_places([shown(entry) for entry in raw], before)
    return cut_task(keys.tenant, header.task_id, keys.session, owned(messages, header.user))


def _at_their_places(newest: list[dict[str, Any]], before: int) -> list[dict[str, Any]]:
    """Behind as many entries that say nothing as stand before them: anchors count all.

    Whose a turn is its first message says: where that is not among them, the turn says nothing either.
    """
    begin = next((n for n, message in enumerate(newest) if message.get("role") == "user"), len(newest)) if before else 0
    return [*({} for _ in range(before + begin)), *newest[begin:]]
