"""A tenant's tasks by when they began, newest first: the index in Redis, and behind what it still knows the records."""

import asyncio
from collections.abc import AsyncIterator

from pentad.contracts.ids import shard_in
from pentad.services.gateway.edge.pages import IndexEntry, newest_first, oldest
from pentad.shared.immutable import immutable
from pentad.shared.keys import task_index
from pentad.shared.records.by_time import DAY_MS, HOUR_MS, Recorded
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store

_MARGIN_MS = 600_000
"""How much of the index may be cut while a request reads it: it is cut by the clock."""
_FIRST = "0"
"""No id comes before it."""
_ASKED = 1_000
"""Tasks of which the index is asked at once."""


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
            yield Stretch(await self._behind(after, tenant, await self._records.of_session(tenant, session)), None)
            return
        for day in await self._records.days(tenant):
            if _lies_apart(day, DAY_MS, after, since):
                continue
            for hour in await self._records.hours(tenant, day):
                if not _lies_apart(hour, HOUR_MS, after, since):
                    found = await self._records.began_in(tenant, hour)
                    yield Stretch(await self._behind(after, tenant, found), IndexEntry(hour, _FIRST))
        yield Stretch([], None)

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

    async def _behind(self, after: IndexEntry | None, tenant: str, found: list[Recorded]) -> list[IndexEntry]:
        there = (IndexEntry(each.began, each.task) for each in found)
        entries = sorted((entry for entry in there if after is None or entry < after), reverse=True)
        elsewhere = await self._elsewhere(tenant, entries)
        return [entry for entry in entries if entry not in elsewhere]

    async def _elsewhere(self, tenant: str, entries: list[IndexEntry]) -> set[IndexEntry]:
        """Those that the index has under another time: earlier versions entered when a router had read the message."""
        found: set[IndexEntry] = set()
        for shard in range(self._shards):
            here = [entry for entry in entries if shard_in(entry.member, self._shards) == shard]
            for begin in range(0, len(here), _ASKED):
                asked = here[begin : begin + _ASKED]
                names = [entry.member for entry in asked]
                scores = await self._store.call("ZMSCORE", task_index(shard, tenant), *names)
                pairs = zip(asked, scores, strict=True)
                found |= {entry for entry, score in pairs if score is not None and float(score) != entry.score}
        return found


def _lies_apart(begin: int, length: int, after: IndexEntry | None, since: int) -> bool:
    """Whether nothing of this time is wanted."""
    return (after is not None and after <= IndexEntry(begin, _FIRST)) or begin + length <= since
