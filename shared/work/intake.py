"""Reads entries for a consumer: never more than it can begin at once, reclaimed ones before fresh ones.

An entry that waits in a busy worker is kept from an idle one until the lease ends. So places are taken before Redis is
asked for as many entries, and one loop asks for both kinds: while a read waits, nobody else can use up its places.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.store.beats import beat_s
from pentad.shared.store.store import Argument, Store
from pentad.shared.store.wire import Word
from pentad.shared.work.entry import Entry, data_of
from pentad.shared.work.handler import PROBE_S, Breaker


class Slots:
    """Places for what is handled. Whoever asks Redis for entries has taken their places before."""

    def __init__(self, places: int) -> None:
        self.free = places
        self.sharers = 0
        """Consumers that take from here."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, most: int) -> int:
        """Wait, in turn, until a place is free, and take as many as are, up to so many."""
        if self._waiting or not self.free:
            await self._turn()
        taken = min(most, self.free)
        self.free -= taken
        if self._waiting:
            self._wake()
        return taken

    def give(self, places: int) -> None:
        """Give places back."""
        self.free += places
        if self._waiting:
            self._wake()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        while True:
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._wake()
                raise
            if self.free:
                return
            turn = asyncio.get_running_loop().create_future()  # another was quicker: next in turn all the same
            self._waiting.appendleft(turn)

    def _wake(self) -> None:
        while self.free and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


_LOOKS_BEFORE_RECLAIM = 2
"""Looks, a lease apart, at which an entry must not have aged before the next may take it over."""


class Ahead:
    """Finds what XAUTOCLAIM would leave to a dead worker for as long as the clock has stepped back."""

    def __init__(self, store: Store, where: tuple[str, str, str], lease_ms: int) -> None:
        self._store, self._lease_s = store, lease_ms / 1000
        self._key, self._group, self._consumer = where
        self._seen: dict[str, int] = {}
        """At how many looks in a row each entry had not aged."""
        self._look_at = float("-inf")

    async def reclaim(self, most: int) -> list[Any]:
        """Take over so many such entries at most; most calls do not even look. Raises as `Store.run` does."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return []
        self._look_at = now + self._lease_s
        known = [entry for entry, looks in self._seen.items() if looks >= _LOOKS_BEFORE_RECLAIM][:most]
        args: list[Argument] = [self._group, self._consumer, *known]
        claimed, others = await self._store.run("reclaim_ahead", [self._key], args)
        self._seen = {entry: self._seen.get(entry, 0) + 1 for entry in map(bytes.decode, others)}
        return list(claimed)


Ask = Callable[..., Awaitable[Any]]
"""Sends a command and waits for its reply, through every outage."""
_MAX_ENTRIES_PER_READ = 32
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
        gather_s: float = 0.0,
    ) -> None:
        """``gather_s``: seconds without a read after one that found entries, so that the next finds many."""
        self._gather_s, self._found = gather_s, False
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
        elif self._gather_s and self._found and not self._more:
            await asyncio.sleep(self._gather_s)
        self.held = await self._slots.acquire(1 if self._breaker.open else _MAX_ENTRIES_PER_READ)
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
        self._found = bool(found)
        self._more = self._found and len(found[0][1]) == self.held
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
