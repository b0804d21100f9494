"""The relay: one loop per gateway process and shard carries events from the sessions' streams to their listeners.

A doorbell stream says which sessions have news. One XREAD after the other waits for it, and names the sessions served
here that it has named: those that have not been read since, and the few that were named last, whose next news then come
without asking. A slow sweep over all served streams covers a lost ring. What is read is handed on as raw bytes.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from pentad.shared.event_loop import cancel_all
from pentad.shared.events.feed import START, Listener, SessionEvents
from pentad.shared.keys import PROBE, SessionKeys, bell
from pentad.shared.store.refusals import is_outage, said
from pentad.shared.store.wire import Wire
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

_COUNT = 500
"""Entries of one stream read at once. The bell keeps twice as many, so a full reply of it may hide lost ones."""
_FOLLOWED = 4
"""Sessions whose streams are waited for together with the bell, while there is no load: those that it named last."""
_SWEEP_S = 1.0
_SWEEP_CHUNK = 256
_SUSPECT = 100
"""The shortest stream that settings allow: this many new entries may have pushed others out unread."""
_PAUSE_S = 0.002
"""Under load a reading waits this long, so that many sessions' news come in one reply."""
_LOAD_PER_S = 1000
"""Rings a second that are load."""
_WINDOW_S = 0.1
_GONE = b"gone"
"""Field of a ring that says that events of the session were erased."""


class ShardRelay:
    """The loop of one shard."""

    def __init__(self, url: str, shard: int, on_reconnect: Callable[[], None]) -> None:
        self.shard = shard
        self.feeds: dict[bytes, SessionEvents] = {}
        self.answered_at = float("-inf")
        """``monotonic`` time of Redis's last answer."""
        self._rings, self._rings_since, self._busy = 0, 0.0, False
        self.trouble: str | None = "not started"
        """Why events do not flow; None when they do."""
        self.began = asyncio.Event()
        self._wire = Wire(url)
        self._opened = 0
        self._bell = bell(shard).encode()
        self._heard = b"$"
        self._dirty: dict[bytes, SessionEvents] = {}
        """To be read next."""
        self._followed: dict[bytes, SessionEvents] = {}
        """Named by every reading; the one that rang first goes first."""
        self._joined: dict[bytes, SessionEvents] = {}
        """Have new listeners, who read so far over another connection: maybe from a server that is none any more."""
        self._erased: dict[bytes, SessionEvents] = {}
        """Have lost events to an erasure: their listeners go on from a snapshot, and show them no more."""
        self._sweep: list[SessionEvents] = []
        self._sweep_at = 0.0
        self._on_reconnect = on_reconnect

    def feed(self, keys: SessionKeys) -> SessionEvents:
        """The feed of a session; a holder must `release` it."""
        feed = self.feeds.get(keys.actor.encode())
        if feed is None:
            feed = SessionEvents(keys)
            self.feeds[feed.name] = feed
        feed.holders += 1
        return feed

    def release(self, feed: SessionEvents) -> None:
        """One holder less; the last one ends the reading."""
        feed.holders -= 1
        if feed.holders == 0:
            del self.feeds[feed.name]
            self._dirty.pop(feed.name, None)
            self._followed.pop(feed.name, None)
            self._joined.pop(feed.name, None)
            self._erased.pop(feed.name, None)

    def join(self, feed: SessionEvents, listener: Listener) -> None:
        """Tell a listener what comes after its position, or that the server asked here does not know that position."""
        if feed.position is None:
            feed.position = listener.position
        feed.listeners.add(listener)
        self._joined[feed.name] = feed

    async def run(self) -> None:
        """Relay for ever; an outage is waited out."""
        pause = 0.05
        while True:
            try:
                await self._begin()
                pause = 0.05
                while True:
                    await self._turn()
            except Exception as error:
                self._complain(error)
                await self._wire.close()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)

    def _complain(self, error: Exception) -> None:
        """Log an error and show it in readiness. One that is no outage is a bug; the relay begins anew anyway."""
        self.trouble = f"Redis is unavailable: {said(error)}"
        if is_outage(error):
            _say.warning("waits", "the relay waits for Redis: %s", said(error))
        else:
            _say.error("anew", "the relay begins anew", exc=error)

    async def close(self) -> None:
        """Close the connection, after the loop has ended."""
        await self._wire.close()

    async def _begin(self) -> None:
        """A new connection: hear the bell from now, and check that what was read is still there."""
        # Only a primary does this, and it changes nothing: a replica may be given another history without a word.
        await self._wire.ask(b"DEL", PROBE)
        self._opened = self._wire.opened
        self._on_reconnect()
        last = await self._wire.ask(b"XREVRANGE", self._bell, b"+", b"-", b"COUNT", 1)
        self._heard = last[0][0] if last else START
        await self._verify(list(self.feeds.values()))
        self._suspect_all()
        self._answered()
        self.began.set()

    async def _turn(self) -> None:
        """Read what the bell has named and what is due in the sweep; when there is nothing, wait for either."""
        if self._joined:
            joined, self._joined = self._joined, {}
            await self._verify(list(joined.values()))
        if self._erased:
            await self._restart_erased()
        if monotonic() >= self._sweep_at:
            self._sweep_some()
        asked = self._to_read()
        positions = [position for _, position in asked.values()]
        wait_ms = max(1, min(1000, int((self._sweep_at - monotonic()) * 1000)))
        block = () if self._dirty else (b"BLOCK", wait_ms)
        command = (b"XREAD", b"COUNT", _COUNT, *block, b"STREAMS", self._bell, *asked, self._heard, *positions)
        reply = await self._wire.ask(*command)
        if self._wire.opened != self._opened:
            raise ConnectionError("the connection was replaced: what came meanwhile may be missing")
        self._answered()
        had_news = False
        for key, entries in reply or ():
            if key == self._bell:
                had_news = True
                self._mark(entries)
            else:
                await self._hand_on(*asked[key], entries)
        if had_news and self._busy:
            await asyncio.sleep(_PAUSE_S)

    def _to_read(self) -> dict[bytes, tuple[SessionEvents, bytes]]:
        """The streams that the next reading names: of each key the feed and its position."""
        if len(self._dirty) <= _SWEEP_CHUNK:
            feeds, self._dirty = self._dirty, {}
        else:
            feeds = {name: self._dirty.pop(name) for name in list(self._dirty)[:_SWEEP_CHUNK]}
        if not self._busy:
            feeds |= self._followed
        return {f.key: (f, f.position) for f in feeds.values() if f.holders and f.position is not None}

    def _answered(self) -> None:
        self.answered_at = monotonic()
        self.trouble = None

    def _mark(self, rings: Sequence[Any]) -> None:
        self._heard = rings[-1][0]
        self._count(len(rings))
        for _, fields in rings:
            feed = self.feeds.get(fields[1])
            if feed is None:
                continue
            if feed.position is None:
                feed.has_news = True
            else:
                self._dirty[feed.name] = feed
                self._follow(feed)
            if _GONE in fields[2::2]:
                self._erased[feed.name] = feed
        if len(rings) >= _COUNT:
            self._suspect_all()

    def _follow(self, feed: SessionEvents) -> None:
        self._followed.pop(feed.name, None)
        self._followed[feed.name] = feed
        if len(self._followed) > _FOLLOWED:
            del self._followed[next(iter(self._followed))]

    def _count(self, rings: int) -> None:
        self._rings += rings
        passed = self.answered_at - self._rings_since
        if passed >= _WINDOW_S:
            self._busy = self._rings >= _LOAD_PER_S * passed
            self._rings, self._rings_since = 0, self.answered_at

    def _suspect_all(self) -> None:
        """Rings may have been missed: read every stream once."""
        self._dirty = self._live()
        for feed in self.feeds.values():
            feed.has_news = True

    def _live(self) -> dict[bytes, SessionEvents]:
        return {name: feed for name, feed in self.feeds.items() if feed.position is not None}

    def _sweep_some(self) -> None:
        """Name one chunk of all served streams; a whole round takes a second or so."""
        if not self._sweep:
            self._sweep = list(self._live().values())
        chunk, self._sweep = self._sweep[:_SWEEP_CHUNK], self._sweep[_SWEEP_CHUNK:]
        self._dirty |= {feed.name: feed for feed in chunk}
        self._sweep_at = monotonic() + _SWEEP_S / (1 + len(self.feeds) // _SWEEP_CHUNK)

    async def _hand_on(self, feed: SessionEvents, position: bytes, entries: Sequence[Any]) -> None:
        if len(entries) >= _SUSPECT and position != START and not await self._holds(feed, position):
            feed.restart(entries[-1][0])
        elif feed.position == position:
            feed.deliver(entries)
        if len(entries) >= _COUNT or feed.position != entries[-1][0]:
            self._dirty[feed.name] = feed

    async def _holds(self, feed: SessionEvents, position: bytes) -> bool:
        return bool(await self._wire.ask(*_look_up(feed, position)))

    async def _restart_erased(self) -> None:
        """Tell who follows a session that events of it were erased."""
        feeds = [feed for feed in self._erased.values() if feed.position is not None]
        self._erased = {}
        for feed in feeds:
            feed.restart(await self._newest(feed))

    async def _newest(self, feed: SessionEvents) -> bytes:
        last = await self._wire.ask(b"XREVRANGE", feed.key, b"+", b"-", b"COUNT", 1)
        newest: bytes = last[0][0] if last else START
        return newest

    async def _verify(self, feeds: list[SessionEvents]) -> None:
        """A stream that lost what was read last has another history than its listeners know; they are told."""
        marks = [(feed, position) for feed in feeds for position in feed.positions()]
        for first in range(0, len(marks), _SWEEP_CHUNK):
            chunk = marks[first : first + _SWEEP_CHUNK]
            found = await self._wire.ask_all([_look_up(*mark) for mark in chunk])
            for feed, position in (mark for mark, entry in zip(chunk, found, strict=True) if not entry):
                feed.lost(position, await self._newest(feed))


def _look_up(feed: SessionEvents, position: bytes) -> tuple[bytes, ...]:
    return b"XRANGE", feed.key, position, position


class Relay:
    """The relays of all shards of one gateway process."""

    def __init__(self, url: str, shards: int) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.shards = [ShardRelay(url, shard, self._reconnected) for shard in range(shards)]
        self._loops: list[asyncio.Task[None]] = []

    def on_connect(self, call: Callable[[], None]) -> None:
        """Call this for each new connection, as soon as Redis answers on it."""
        self._listeners.append(call)

    def _reconnected(self) -> None:
        for listener in self._listeners:
            listener()

    async def start(self) -> None:
        """Begin to relay; returns once every shard's loop has had its first answer."""
        self._loops = [asyncio.create_task(shard.run()) for shard in self.shards]
        await asyncio.gather(*(shard.began.wait() for shard in self.shards))

    async def stop(self) -> None:
        """End the loops and their connections."""
        await cancel_all(self._loops)
        await asyncio.gather(*(shard.close() for shard in self.shards))

    def alive(self) -> bool:
        """Whether all loops run."""
        return all(not loop.done() for loop in self._loops)

    @property
    def trouble(self) -> str | None:
        """Why events do not flow; None when they do."""
        return next((shard.trouble for shard in self.shards if shard.trouble), None)

    @property
    def answered_at(self) -> float:
        """``monotonic`` time at which Redis had last answered every loop."""
        return min(shard.answered_at for shard in self.shards)
