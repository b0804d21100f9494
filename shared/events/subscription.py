"""A client's way through a session's events: what is kept after its cursor, then what comes; no gap, no repeat."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from redis.exceptions import ResponseError

from pentad.shared.errors import PentadError
from pentad.shared.events.deltas import DeltaFilter, StreamEvent, reaches_back, without_finished
from pentad.shared.events.feed import START, SessionEvents, WaitingEvents, events_of, order
from pentad.shared.events.relay import Relay, ShardRelay
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store, guarded

_CHUNK = 256
_READ_BACK_CHUNK = 64
_READ_BACK_LIMIT = 2048
OUTBOX_EVENTS = 2000
"""Events that may wait for a slow reader."""
OUTBOX_BYTES = 4 << 20
_CURSOR = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?", re.ASCII)
_HIGHEST = (1 << 64) - 1


class CursorExpiredError(PentadError):
    """The events after the cursor are not all kept. Go on from a snapshot; the next read begins after it."""


class SlowReaderError(PentadError):
    """The client reads too slowly. Come back with the last cursor."""


class BadCursorError(PentadError):
    """Not a cursor: never again."""


def parse_cursor(text: str) -> bytes:
    """A cursor as clients send it, as an entry id. Raises ``BadCursorError``."""
    found = _CURSOR.fullmatch(text)
    at, number = (int(found.group(1)), int(found.group(2) or 0)) if found else (-1, -1)
    if not found or max(at, number) > _HIGHEST:
        raise BadCursorError("the cursor must be the `id` of an event, or 0")
    return b"%d-%d" % (at, number)


def _nothing() -> None:
    pass


class Subscription:
    """Made by `subscribe`; must be closed."""

    def __init__(self, store: Store, relay: ShardRelay, keys: SessionKeys) -> None:
        self._store, self._relay = store, relay
        self._feed: SessionEvents = relay.feed(keys)
        self._key = keys.events
        self._filter = DeltaFilter()
        self._outbox = WaitingEvents(OUTBOX_EVENTS, OUTBOX_BYTES)
        self._news = asyncio.Event()
        self._skip: tuple[int, int] | None = None
        self._lost = False
        self._live = False
        self._closed = False
        self._anchored = False
        self.position = START
        """Where the reading is: what is read next comes after it."""
        self.expired = False
        """Whether the cursor that was asked for is gone; the position is then the newest event's."""
        self.on_overflow: Callable[[], None] = _nothing
        """Called once when the client turns out to read too slowly."""

    async def _begin(self, cursor: bytes | None) -> None:
        first, last = await guarded("a reader of events", _ends, self._store, self._key)
        if cursor is None:
            self.position = last
        elif cursor != START and (order(cursor) < order(first) or order(cursor) > order(last)):
            self.expired, self.position = True, last
        else:
            # A cursor whose entry is gone points into a tail that the store has lost and grown again.
            self.position, self._anchored = cursor, cursor != START
        if self.position != START:
            await guarded("a reader of events", self._prime)

    async def _prime(self) -> None:
        """Learn which deltas the client has, so that neither another attempt nor a repeat follows them."""
        earlier: list[StreamEvent] = []
        end = self.position.decode()
        for _ in range(_READ_BACK_LIMIT // _READ_BACK_CHUNK):
            entries = await self._store.call("XREVRANGE", self._key, end, "-", "COUNT", _READ_BACK_CHUNK)
            earlier[:0] = events_of(entries[::-1])
            if len(entries) < _READ_BACK_CHUNK or reaches_back(earlier):
                break
            end = "(" + entries[-1][0].decode()
        self._filter.prime(earlier)

    async def read(self) -> list[StreamEvent]:
        """The next events, at least one; waits for them. Redis's outages are waited out.

        Raises ``CursorExpiredError`` and ``SlowReaderError``.
        """
        while True:
            if self._lost or self._outbox.overflown:
                self._raise_trouble()
            if self._outbox:
                return self._outbox.drain()
            if self._live:
                self._news.clear()
                await self._news.wait()
            elif events := await self._catch_up():
                return events

    @property
    def overflown(self) -> bool:
        """Whether the client reads too slowly: no more events come."""
        return self._outbox.overflown

    def _raise_trouble(self) -> NoReturn:
        if self.overflown:
            raise SlowReaderError("the client reads too slowly: connect again with the last cursor")
        self._lost = False
        raise CursorExpiredError("events after the cursor are no longer kept: go on from the snapshot")

    async def _catch_up(self) -> list[StreamEvent]:
        """One chunk of what is kept; at its end, join those who are told as it comes."""
        ahead, self._feed.has_news = self._feed.position, False
        entries = await guarded("a reader of events", self._range)
        if self._anchored and self.position != START:
            if not entries or entries[0][0] != self.position:
                await self._jump()
                return []
            entries = entries[1:]
        if entries:
            self.position, self._anchored = entries[-1][0], True
            return self._admit(without_finished(events_of(entries)))
        if ahead is not None and order(ahead) > order(self.position):
            await self._jump()
        else:
            self._attach()
        return []

    async def _range(self) -> Any:
        start = self.position.decode() if self._anchored else "(" + self.position.decode()
        return await self._store.call("XRANGE", self._key, start, "+", "COUNT", _CHUNK)

    async def _jump(self) -> None:
        """Go on from the newest event: those behind the position were trimmed, or never were."""
        _, self.position = await guarded("a reader of events", _ends, self._store, self._key)
        self._anchored, self._lost = False, True
        self._filter = DeltaFilter()

    def _attach(self) -> None:
        feed = self._feed
        behind = feed.has_news if feed.position is None else order(feed.position) > order(self.position)
        if not behind:
            self._skip = order(self.position)
            self._relay.join(feed, self)
            self._live = True

    def offer(self, events: Sequence[StreamEvent]) -> None:
        """Take events from the relay."""
        if self._skip is not None:
            events = [event for event in events if order(event.id) > self._skip]
            self._skip = None if events else self._skip
        if self.overflown:
            return
        if not all(map(self._outbox.put, self._admit(events))):
            self.on_overflow()
        if events:
            self.position = events[-1].id
        self._news.set()

    def lose(self) -> None:
        """Told by the relay: what was read last is gone."""
        self._outbox.clear()
        self._filter = DeltaFilter()  # attempts of another history may have the same numbers
        self._skip, self._lost = None, True
        self.position = self._feed.position or START
        self._news.set()

    def _admit(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        apply = self._filter.apply
        return [admitted for admitted in map(apply, events) if admitted is not None]

    def close(self) -> None:
        """End it. Harmless when done twice."""
        if not self._closed:
            self._closed = True
            self.on_overflow = _nothing  # whoever it calls holds this subscription
            self._feed.listeners.discard(self)
            if not self._feed.listeners:
                self._feed.position, self._feed.has_news = None, True
            self._relay.release(self._feed)


async def _ends(store: Store, key: str) -> tuple[bytes, bytes]:
    """First and last id of a stream: of its first entry, and the last one it ever gave out."""
    try:
        flat = await store.call("XINFO", "STREAM", key)
    except ResponseError as error:
        if "no such key" not in str(error):
            raise
        return START, START
    info = dict(zip(flat[::2], flat[1::2], strict=True))
    last: bytes = info[b"last-generated-id"]
    first: bytes = info[b"first-entry"][0] if info[b"first-entry"] else last
    return first, last


async def subscribe(store: Store, relay: Relay, keys: SessionKeys, cursor: bytes | None) -> Subscription:
    """Begin to read a session's events after a cursor (``START``: from the oldest kept; None: from now)."""
    subscription = Subscription(store, relay.shards[keys.shard], keys)
    try:
        await subscription._begin(cursor)
    except BaseException:
        subscription.close()
        raise
    return subscription
