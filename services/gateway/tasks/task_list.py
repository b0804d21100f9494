"""A tenant's tasks as a list, newest first: those of the index in Redis, and behind what it still knows the records.

What one request looks at is bounded.
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
"""How much of the index may be cut while a request reads it: it is cut by the clock."""
_FIRST = "0"
"""No id comes before it."""
_LISTED = 1_000
"""Records of an hour that are listed at a time."""


_CHUNK = 100
"""Index entries that are looked at together."""
_HEADERS, _RECORDS, _STRETCHES, _LOOK_S = 2_000, 300, 100, 2.0
"""What one request looks at, and for how long: a rare status in a long list comes in several pages. A stretch is a
piece of the index in Redis, or an hour of records."""


@immutable
class Stretch:
    """Part of a list."""

    entries: list[IndexEntry]
    """Newest first."""
    down_to: IndexEntry | None
    """All down to here is known now; None: there is no more."""


class TasksByTime:
    """Reads them. ``index_ttl_s``: how long the index is kept. Raises ``OutageError`` when a store is unavailable."""

    def __init__(self, store: Store, records: Records, shards: int, index_ttl_s: int) -> None:
        self._store, self._records, self._shards, self._index_ttl_s = store, records, shards, index_ttl_s

    async def indexed(self, tenant: str, after: IndexEntry | None) -> AsyncIterator[Stretch]:
        """What Redis knows behind ``after``."""
        async for piece in newest_first(self._store, lambda s: task_index(s, tenant), self._shards, after):
            yield Stretch(piece, piece[-1])
        yield Stretch([], None)

    async def all(
        self, tenant: str, after: IndexEntry | None, since: int = 0, session: str | None = None
    ) -> AsyncIterator[Stretch]:
        """All of them, each once. With ``session``, records of others are left out; so are days before ``since``."""
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
        """Those with records, from where Redis may not know all on. An hour is listed when the list comes to it."""
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
        """An hour's tasks, a bounded number at a time."""
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
        """What began before it may have left the index; None: Redis knows nothing.

        An index is cut from its end. A shard without one has had no task for as long as one is kept.
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
    """Whether nothing of this time is wanted."""
    return (after is not None and after <= IndexEntry(begin, _FIRST)) or begin + length <= since


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
