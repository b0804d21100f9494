"""What a consumer takes in: never more than it can begin at once, first what silent workers left, then what is fresh.

An entry that waits in a busy worker is kept from an idle one until the lease ends. So places are taken before Redis is
asked for as many entries, and one loop asks for both kinds: while a read waits, nobody else can use up its places.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.store.beating import beat_s
from pentad.shared.store.store import Store
from pentad.shared.store.wire import Word
from pentad.shared.work.ahead import Ahead
from pentad.shared.work.breaker import PROBE_S, Breaker
from pentad.shared.work.entry import Entry, data_of
from pentad.shared.work.slots import Slots

Ask = Callable[..., Awaitable[Any]]
"""Sends a command and waits for its reply, through every outage."""
_MOST = 32
_HELD_IDLE = 2
"""Places that one of several consumers keeps while it waits for entries: enough to see whether one came alone."""


class Intake:
    """Reads one stream for one consumer."""

    def __init__(
        self,
        store: Store,
        where: tuple[str, str, str],
        slots: Slots,
        lease_ms: int,
        begin: Callable[[Entry], bool],
        breaker: Breaker,
    ) -> None:
        self._store, self._slots, self._lease_ms = store, slots, lease_ms
        self._key, self._group, self._consumer = where
        self._begin, self._breaker = begin, breaker
        slots.sharers += 1
        self.held = 0
        """Places taken for what is asked for."""
        self._pause = beat_s(lease_ms)
        self._cursor: Any = b"0-0"
        self._ahead = Ahead(store, where, lease_ms)
        self._reclaim_at = float("-inf")
        self._in_trouble = False
        self._more = False
        """The last read found all that it asked for: there may be more."""

    def trouble(self) -> None:
        """Redis did not serve. Nobody could beat: what lives gets a lease's time from the first answer on."""
        self._in_trouble = True

    def give_back(self) -> None:
        """Places that were taken for entries that did not come."""
        held, self.held = self.held, 0
        if held:
            self._slots.give(held)

    def spend(self) -> None:
        """One of the places is used; whoever uses it gives it back."""
        self.held -= 1

    async def turn(self, ask: Ask) -> Sequence[Any]:
        """Take in once. What silent workers left is begun here; fresh entries are returned, as Redis does."""
        self.give_back()
        if self._breaker.open:
            await asyncio.sleep(PROBE_S)
        self.held = await self._slots.acquire(1 if self._breaker.open else _MOST)
        try:
            if asyncio.get_running_loop().time() >= self._reclaim_at and not self._in_trouble:
                await self._reclaim()
            found = await self._fresh(ask) if self.held else ()
        except BaseException:
            self.give_back()
            raise
        return found

    # Fresh entries

    async def _fresh(self, ask: Ask) -> Sequence[Any]:
        swept = self._cursor == b"0-0"
        if self._slots.sharers == 1:
            return await self._read(ask, self._pause if swept else None)
        if self._more or not swept:
            return await self._read(ask, None)
        if self._slots.free >= _HELD_IDLE * self._slots.sharers:
            self._keep(_HELD_IDLE)
            return await self._read(ask, self._pause)
        return await self._read_without_waiting(ask)

    def _keep(self, places: int) -> None:
        if self.held > places:
            self._slots.give(self.held - places)
            self.held = places

    async def _read(self, ask: Ask, wait_s: float | None) -> Sequence[Any]:
        wait = () if wait_s is None else ("BLOCK", max(1, round(wait_s * 1000)))
        who: list[Word] = ["XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", self.held, *wait]
        reply = await ask(*who, "STREAMS", self._key, ">")
        found: Sequence[Any] = reply or ()
        self._more = bool(found) and len(found[0][1]) == self.held
        if self._in_trouble:
            self._in_trouble = False
            self._reclaim_at = asyncio.get_running_loop().time() + self._lease_ms / 1000
        return found

    async def _read_without_waiting(self, ask: Ask) -> Sequence[Any]:
        """Places are scarce, and others may need them: none is kept while there is nothing to read."""
        about = await ask("XINFO", "STREAM", self._key)
        found = await self._read(ask, None)
        if not found:
            last = dict(zip(about[::2], about[1::2], strict=True))[b"last-generated-id"]
            self.give_back()
            await ask("XREAD", "COUNT", 1, "BLOCK", round(self._pause * 1000), "STREAMS", self._key, last)
        return found

    # What silent workers left

    async def _reclaim(self) -> None:
        """Take over what has been idle for the lease, every quarter of it; half of the places are for what is fresh."""
        fresh = self.held // 2
        try:
            reply = await self._store.call(
                *("XAUTOCLAIM", self._key, self._group, self._consumer, self._lease_ms, self._cursor),
                *("COUNT", self.held - fresh),
            )
            self._cursor = reply[0]
            self._take_over(reply[1])
            if self._cursor == b"0-0" and self.held > fresh:
                self._take_over(await self._ahead.reclaim(self.held - fresh))
        except OutageError:
            self.trouble()
            return
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                self._store.stumbled(f"reclaiming in {self._key}", error)
            self._cursor = b"0-0"
        if self._cursor == b"0-0":
            self._reclaim_at = asyncio.get_running_loop().time() + self._pause

    def _take_over(self, found: Sequence[Any]) -> None:
        for entry_id, fields in found:
            entry = Entry(self._key, entry_id.decode(), data_of(fields), redelivered=True)
            if self._begin(entry):
                self.spend()
