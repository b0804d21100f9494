"""A tenant's tasks as a list, live and archived, newest first. What one request looks at is bounded."""

import asyncio
from time import monotonic
from typing import Any

from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import LAST_MS, rfc3339
from pentad.contracts.records import Task, UnreadableTask
from pentad.services.gateway.pages import IndexEntry, Page, newest_first
from pentad.services.gateway.queries import Queries
from pentad.shared.actors.headers import LIVE
from pentad.shared.actors.sessions import load_task
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.keys import task_index
from pentad.shared.store.store import Store

_CHUNK = 100
"""Index entries that are looked at together."""
_HEADERS, _RECORDS, _LOOK_S = 2_000, 300, 2.0
"""What one request looks at, and for how long: a rare status in a long list comes in several pages."""
"""What no archived task is: its record need not be read to know."""


@immutable
class Began:
    """When tasks began, in ms since the epoch: the index is in this order, so that nothing else is looked at."""

    since: int = 0
    """The first moment."""
    until: int | None = None
    """The first moment behind; None: no end."""

    def first(self, after: IndexEntry | None) -> IndexEntry | None:
        """Behind which entry the list goes on, when it has come to ``after``."""
        if self.until is None:
            return after
        end = IndexEntry(self.until, "")
        return end if after is None else min(after, end)


EVER = Began()


class _Bounds:
    """How much a request has looked at."""

    def __init__(self) -> None:
        self.headers = self.records = 0
        self._until = monotonic() + _LOOK_S

    @property
    def reached(self) -> bool:
        return self.headers >= _HEADERS or self.records >= _RECORDS or monotonic() > self._until


class TaskList:
    """Reads lists of tasks. Raises ``OutageError`` when a store is unavailable."""

    def __init__(self, store: Store, queries: Queries, shards: int) -> None:
        self._store, self._queries, self._shards = store, queries, shards

    async def page(
        self,
        tenant: str,
        limit: int,
        after: IndexEntry | None,
        status: str | None = None,
        session: str | None = None,
        began: Began = EVER,
    ) -> Page:
        """The tasks behind ``after``, those alone that have this status and session, and began then, when given.

        A page may hold fewer than there are, even none: then it says where to go on.
        """
        items: list[dict[str, Any]] = []
        last, bounds = after, _Bounds()
        size = min(limit, _CHUNK) if status is None and session is None else _CHUNK
        async for piece in newest_first(self._store, lambda s: task_index(s, tenant), self._shards, began.first(after)):
            for first in range(0, len(piece), size):
                if bounds.reached:
                    return Page(items, last.cursor() if last else None)
                chunk = [entry for entry in piece[first : first + size] if entry.score >= began.since]
                for entry, task in zip(chunk, await self._load(tenant, chunk, status, bounds), strict=True):
                    if len(items) == limit:
                        return Page(items, last.cursor() if last else None)
                    last = entry
                    if task is not None and status in (None, task.status) and session in (None, task.session_id):
                        items.append(task.model_dump(mode="json"))
                if len(chunk) < len(piece[first : first + size]):
                    return Page(items, None)
        return Page(items, None)

    async def _load(
        self, tenant: str, entries: list[IndexEntry], status: str | None, bounds: _Bounds
    ) -> list[Task | None]:
        found = list(await asyncio.gather(*(self._live(tenant, entry) for entry in entries)))
        bounds.headers += len(entries)
        if status in LIVE:
            return found
        missing = [n for n, task in enumerate(found) if task is None]
        bounds.records += len(missing)
        kept = await asyncio.gather(*(self._kept(tenant, entries[n]) for n in missing))
        for n, task in zip(missing, kept, strict=True):
            found[n] = task
        return found

    async def _live(self, tenant: str, entry: IndexEntry) -> Task | None:
        """The task of an index's entry, unless it has left Redis."""
        keys = self._queries.task_keys(tenant, entry.member)
        try:
            header = None if keys is None else await load_task(self._store, keys)
        except DamagedError as error:
            return _unreadable(entry, error)
        return None if header is None else header.describe()

    async def _kept(self, tenant: str, entry: IndexEntry) -> Task | None:
        """The archived task of an index's entry."""
        try:
            record = await self._queries.record(tenant, entry.member)
        except DamagedError as error:
            return _unreadable(entry, error)
        return None if record is None else record.task


def _unreadable(entry: IndexEntry, error: DamagedError) -> UnreadableTask:
    """A task of which nothing but its place in the index is known."""
    at = rfc3339(min(entry.score, LAST_MS))
    return UnreadableTask(
        task_id=entry.member,
        session_id="",
        goal="",
        instruction="",
        created_at=at,
        updated_at=at,
        steps=0,
        usage=TaskUsage(),
        problem=str(error),
    )
