"""A tenant's tasks as a list, live and archived, newest first. What one request looks at is bounded."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import LAST_MS, rfc3339
from pentad.contracts.records import Task, UnreadableTask
from pentad.services.gateway.edge.pages import IndexEntry, Page
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.tasks_by_time import Stretch, TasksByTime
from pentad.shared.actors.headers import LIVE
from pentad.shared.actors.sessions import load_task
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.store.store import Store

_CHUNK = 100
"""Index entries that are looked at together."""
_HEADERS, _RECORDS, _STRETCHES, _LOOK_S = 2_000, 300, 100, 2.0
"""What one request looks at, and for how long: a rare status in a long list comes in several pages. A stretch is a
piece of the index in Redis, or an hour of records."""


@immutable
class Began:
    """When tasks began, in ms since the epoch: lists are in this order, so that nothing else is looked at."""

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
        self.headers = self.records = self.stretches = 0
        self._until = monotonic() + _LOOK_S

    @property
    def reached(self) -> bool:
        looked = self.headers >= _HEADERS or self.records >= _RECORDS or self.stretches >= _STRETCHES
        return looked or monotonic() > self._until


class TaskList:
    """Reads lists of tasks. Raises ``OutageError`` when a store is unavailable."""

    def __init__(self, store: Store, queries: Queries, by_time: TasksByTime) -> None:
        self._store, self._queries, self._by_time = store, queries, by_time

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
        async for stretch in self._stretches(tenant, began, after, status, session):
            for first in range(0, len(stretch.entries), size):
                piece = stretch.entries[first : first + size]
                chunk = [entry for entry in piece if entry.score >= began.since]
                if chunk and (len(items) == limit or (bounds.reached and last != after)):
                    return _page(items, last)
                for entry, task in zip(chunk, await self._load(tenant, chunk, status, bounds), strict=True):
                    if len(items) == limit:
                        return _page(items, last)
                    last = entry
                    if task is not None and status in (None, task.status) and session in (None, task.session_id):
                        items.append(task.model_dump(mode="json"))
                if len(chunk) < len(piece):
                    return _page(items, None)
            bounds.stretches += 1
            if stretch.down_to is None or stretch.down_to.score < began.since:
                return _page(items, None)
            last = stretch.down_to
            if bounds.reached:
                return _page(items, last)
        return _page(items, None)

    def _stretches(
        self, tenant: str, began: Began, after: IndexEntry | None, status: str | None, session: str | None
    ) -> AsyncIterator[Stretch]:
        first = began.first(after)
        if status in LIVE:  # none of these is archived
            return self._by_time.indexed(tenant, first)
        return self._by_time.all(tenant, first, began.since, session)

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


def _page(items: list[dict[str, Any]], last: IndexEntry | None) -> Page:
    """``last``: where the list has come to; None: at its end."""
    return Page(items, None if last is None else last.cursor())


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
