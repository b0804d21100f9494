"""The list of a tenant's tasks, newest first: those of the index in Redis, then those with records only.

One request looks at a bounded number of tasks.
"""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import LAST_MS, rfc3339
from pentad.contracts.records import Task, UnreadableTask
from pentad.services.gateway.edge.pages import IndexEntry, Page, newest_first, oldest
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.headers import LIVE
from pentad.shared.actors.sessions import load_task
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.keys import task_index
from pentad.shared.records.by_time import DAY_MS, HOUR_MS, Recorded
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store

_MARGIN_MS = 600_000
"""Milliseconds of the index that may be cut while a request reads it, because the index is cut by the clock."""
_FIRST = "0"
"""A text that sorts before every id."""
_LISTED = 1_000
"""Records of an hour that are listed at a time."""
_CHUNK = 100
"""Entries of the index that are loaded together."""
_HEADERS, _RECORDS, _STRETCHES, _LOOK_S = 2_000, 300, 100, 2.0
"""Limits of one request: headers, records, stretches, and seconds. A rare status in a long list takes several pages. A
stretch is a piece of the index in Redis, or up to `_LISTED` records of an hour."""


@immutable
class Stretch:
    """A part of a list."""

    entries: list[IndexEntry]
    """Entries of the stretch, newest first."""
    down_to: IndexEntry | None
    """Entry down to which the list is complete; None: there is no more."""


class TasksByTime:
    """Reads tasks by the time they began. Raises ``OutageError`` if a store is unavailable.

    ``index_ttl_s``: seconds for which the index keeps a task.
    """

    def __init__(self, store: Store, records: Records, shards: int, index_ttl_s: int) -> None:
        self._store, self._records, self._shards, self._index_ttl_s = store, records, shards, index_ttl_s

    async def indexed(self, tenant: str, after: IndexEntry | None) -> AsyncIterator[Stretch]:
        """Return the tasks of the index after ``after``."""
        async for piece in newest_first(self._store, lambda s: task_index(s, tenant), self._shards, after):
            yield Stretch(piece, piece[-1])
        yield Stretch([], None)

    async def all(
        self, tenant: str, after: IndexEntry | None, since: int = 0, session: str | None = None
    ) -> AsyncIterator[Stretch]:
        """Return all tasks, each once, without days before ``since`` and records of other sessions than ``session``."""
        streams = [self._recorded(tenant, after, since, session), self.indexed(tenant, after)]
        ahead = [await anext(stream) for stream in streams]
        while True:
            ends = [each.down_to for each in ahead if each.down_to is not None]
            floor = max(ends, default=None)
            known = {entry for each in ahead for entry in each.entries if floor is None or entry >= floor}
            yield Stretch(sorted(known, reverse=True), floor)
            if floor is None:
                return
            for n, each in enumerate(ahead):
                if each.down_to == floor:
                    ahead[n] = await anext(streams[n])
                else:
                    ahead[n] = Stretch([entry for entry in each.entries if entry < floor], each.down_to)

    async def _recorded(
        self, tenant: str, after: IndexEntry | None, since: int, session: str | None
    ) -> AsyncIterator[Stretch]:
        """Return the tasks with records, beginning where the index may be incomplete; each hour is read when needed."""
        seam = await self._seam(tenant)
        if seam is not None and (after is None or seam < after):
            yield Stretch([], seam)
            after = seam
        if session is not None:
            there = (_entry(each) for each in await self._records.of_session(tenant, session))
            yield Stretch(sorted((entry for entry in there if after is None or entry < after), reverse=True), None)
            return
        for day in await self._records.days(tenant):
            if _lies_apart(day, DAY_MS, after, since):
                continue
            for hour in await self._records.hours(tenant, day):
                if not _lies_apart(hour, HOUR_MS, after, since):
                    async for stretch in self._of_hour(tenant, hour, after):
                        yield stretch
        yield Stretch([], None)

    async def _of_hour(self, tenant: str, hour: int, after: IndexEntry | None) -> AsyncIterator[Stretch]:
        """Yield the tasks of an hour, a bounded number at a time."""
        before = None if after is None else Recorded(int(after.score), after.member)
        while True:
            found = await self._records.began_in(tenant, hour, before, _LISTED)
            is_last = len(found) < _LISTED
            entries = [_entry(each) for each in found]
            yield Stretch(entries, IndexEntry(hour, _FIRST) if is_last else entries[-1])
            if is_last:
                return
            before = found[-1]

    async def _seam(self, tenant: str) -> IndexEntry | None:
        """Return the place from which on the index may lack older tasks; None if there is no index.

        An index is cut from its old end. A shard without an index has had no task for as long as tasks are kept there.
        """
        keys = [task_index(shard, tenant) for shard in range(self._shards)]
        now, ends = await asyncio.gather(
            self._store.clock(), asyncio.gather(*(oldest(self._store, key) for key in keys))
        )
        known = [end for end in ends if end is not None]
        if not known:
            return None
        cut = now - self._index_ttl_s * 1000 + _MARGIN_MS
        return IndexEntry(max(cut, *(end + 1 for end in known)), _FIRST)


def _entry(recorded: Recorded) -> IndexEntry:
    return IndexEntry(recorded.began, recorded.task)


def _lies_apart(begin: int, length: int, after: IndexEntry | None, since: int) -> bool:
    """Return whether a day or hour lies outside of the wanted range."""
    return (after is not None and after <= IndexEntry(begin, _FIRST)) or begin + length <= since


@immutable
class Began:
    """The range of time in which listed tasks began, in milliseconds since the epoch."""

    since: int = 0
    """Start of the range."""
    until: int | None = None
    """End of the range, exclusive; None: no end."""

    def first(self, after: IndexEntry | None) -> IndexEntry | None:
        """Return the entry after which the list begins in this range and after ``after``."""
        if self.until is None:
            return after
        end = IndexEntry(self.until, "")
        return end if after is None else min(after, end)


EVER = Began()


class _Bounds:
    """Counts what a request has looked at."""

    def __init__(self) -> None:
        self.headers = self.records = self.stretches = 0
        self._until = monotonic() + _LOOK_S

    @property
    def reached(self) -> bool:
        looked = self.headers >= _HEADERS or self.records >= _RECORDS or self.stretches >= _STRETCHES
        return looked or monotonic() > self._until


class TaskList:
    """Reads lists of tasks. Raises ``OutageError`` if a store is unavailable."""

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
        """Return a page of the tasks after ``after``, with this status and session, and begun in this range, if given.

        A page may have fewer tasks than there are, even none: then it has the cursor of the next page.
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
        """Return the task of an entry from Redis; None if it has left Redis."""
        keys = self._queries.task_keys(tenant, entry.member)
        try:
            header = None if keys is None else await load_task(self._store, keys)
        except DamagedError as error:
            return _unreadable(entry, error)
        return None if header is None else header.describe()

    async def _kept(self, tenant: str, entry: IndexEntry) -> Task | None:
        """Return the task of an entry from its record; None if there is no record."""
        try:
            record = await self._queries.record(tenant, entry.member)
        except DamagedError as error:
            return _unreadable(entry, error)
        return None if record is None else record.task


def _page(items: list[dict[str, Any]], last: IndexEntry | None) -> Page:
    """Return a page. ``last``: its last entry; None at the end of the list."""
    return Page(items, None if last is None else last.cursor())


def _unreadable(entry: IndexEntry, error: DamagedError) -> UnreadableTask:
    """Return a task of which only the place in the index is known."""
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
