"""One served session within a gateway: how far its event stream has been read, and who listens."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from pentad.shared.events.deltas import StreamEvent
from pentad.shared.keys import SessionKeys

log = logging.getLogger(__name__)

START = b"0-0"
"""The position before every entry."""


def order(entry_id: bytes) -> tuple[int, int]:
    """An entry id as something that compares."""
    at, _, number = entry_id.partition(b"-")
    return int(at), int(number or 0)


class Listener(Protocol):
    """Who is told of a session's events as they come."""

    @property
    def position(self) -> bytes:
        """The last entry that it knows."""

    def offer(self, events: Sequence[StreamEvent]) -> None:
        """Take events, in order. Never waits."""

    def lose(self) -> None:
        """The stream no longer holds what was read last: a gap, or a history that was lost."""


class SessionEvents:
    """A session that somebody here listens to, or is about to."""

    def __init__(self, keys: SessionKeys) -> None:
        self.keys = keys
        self.name = keys.actor.encode()
        self.key = keys.events.encode()
        self.position: bytes | None = None
        """The last entry handed to the listeners; None while nobody listens yet."""
        self.has_news = False
        """Set by a ring that nobody could follow yet."""
        self.listeners: set[Listener] = set()
        self.holders = 0
        """Subscriptions, those that still catch up included."""

    def deliver(self, entries: Sequence[Any]) -> None:
        """Hand on what was read after the position."""
        events = events_of(entries)
        self.position = entries[-1][0]
        for listener in tuple(self.listeners):
            listener.offer(events)

    def positions(self) -> set[bytes]:
        """The last entries that are known here: of the feed, and of listeners who joined ahead of it."""
        known = {self.position, *(listener.position for listener in self.listeners)}
        return {position for position in known if position is not None and position != START}

    def lost(self, position: bytes, newest: bytes) -> None:
        """The stream has no such entry: whoever was there goes on elsewhere, and is told."""
        if self.position == position:
            self.restart(newest)
            return
        for listener in tuple(self.listeners):
            if listener.position == position:
                listener.lose()

    def restart(self, position: bytes) -> None:
        """Go on from here, and say to all that what was before may be incomplete."""
        self.position = position
        for listener in tuple(self.listeners):
            listener.lose()


def events_of(entries: Sequence[Any]) -> list[StreamEvent]:
    """Entries of an event stream as Redis sends them: ``[id, [field, value, ...]]``. Foreign ones are left out."""
    events = []
    for entry_id, fields in entries:
        if fields and fields[0] == b"data" and fields[1].startswith(b'{"'):
            mark = fields[3] if len(fields) > 3 and fields[2] == b"d" else None
            events.append(StreamEvent(entry_id, fields[1], mark))
        else:
            log.warning("event entry %s is not one of ours", entry_id)
    return events


class WaitingEvents:
    """Events that wait for a client that reads slower than they come. Bounded in number and bytes."""

    def __init__(self, events: int, size: int) -> None:
        self._limit, self._size_limit = events, size
        self._waiting: deque[StreamEvent] = deque()
        self._size = 0
        self.overflown = False

    def put(self, event: StreamEvent) -> bool:
        """Add one: the first always. Over the limit everything is dropped, `overflown` set, and False returned."""
        self._waiting.append(event)
        self._size += len(event.data)
        if len(self._waiting) > self._limit or (self._size > self._size_limit and len(self._waiting) > 1):
            self.overflown = True
            self.clear()
        return not self.overflown

    def clear(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        self._size = 0

    def drain(self) -> list[StreamEvent]:
        """All that waits, in order."""
        waiting = list(self._waiting)
        self.clear()
        return waiting

    def __bool__(self) -> bool:
        return bool(self._waiting)
