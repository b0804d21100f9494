"""The port through which every protocol follows a session or one of its turns: SSE, WebSocket, waiting for an answer.

A protocol reads batches of events or, if events were missed, a snapshot from which to continue. How it sends them, and
how it treats a client that reads too slowly, is up to the protocol.
"""

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from pydantic_core import from_json, to_json

from pentad.contracts.events import Snapshot
from pentad.contracts.ids import rfc3339
from pentad.services.gateway.domain.waited_turn import TurnFilter
from pentad.services.gateway.edge.problems import busy
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.relay import Relay
from pentad.shared.events.subscription import CursorExpiredError, Subscription, subscribe
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store, guarded

_SUBSCRIBE_S = 5.0


@immutable
class Missed:
    """A gap: events at the cursor are no longer kept. The client continues from ``snapshot``."""

    why: str
    position: bytes
    """Cursor of the snapshot."""
    snapshot: str
    """Snapshot event as JSON."""


class TurnStreams:
    """Opens the event streams of a gateway."""

    def __init__(self, store: Store, relay: Relay, queries: Queries) -> None:
        self._store, self._relay, self._queries = store, relay, queries
        self.closing = asyncio.Event()
        """Event that is set when the gateway stops: streams and waits end."""

    async def open(self, keys: SessionKeys, cursor: bytes | None, turn: TurnFilter | None = None) -> "TurnStream":
        """Open a stream of a session's events after a cursor; None: events from now on. The caller closes the stream.

        ``turn``: filter for the events of one turn. Raises ``ProblemError`` (503) in an outage.
        """
        return TurnStream(self, keys, await self.subscribed(keys, cursor), turn)

    async def subscribed(self, keys: SessionKeys, cursor: bytes | None) -> Subscription:
        """Return a subscription to a session's events. Raises ``ProblemError`` (503) in an outage."""
        if self._relay.trouble is not None:
            raise busy(f"events do not flow now: {self._relay.trouble}", outage=True)
        try:
            async with asyncio.timeout(_SUBSCRIBE_S):
                return await subscribe(self._store, self._relay, keys, cursor)
        except TimeoutError:
            raise busy("events do not flow now: Redis does not answer", outage=True) from None

    async def snapshot(self, keys: SessionKeys, cursor: bytes) -> str:
        """Return a ``snapshot`` event as JSON, with the cursor from which to continue. Waits for Redis."""
        return await guarded("a snapshot", self._snapshot, keys, cursor)

    async def _snapshot(self, keys: SessionKeys, cursor: bytes) -> str:
        mark = await mark_at(self._store, keys.erased)
        event = Snapshot(
            event_id=token_hex(16),
            at=await self._store.now(),
            tenant_id=keys.tenant,
            session_id=keys.session,
            tasks=await self._queries.session_tasks(keys),
            messages=await self._queries.messages(keys),
            erased_at=None if mark is None else rfc3339(mark.at),
        )
        return to_json({"id": cursor.decode()} | event.model_dump(mode="json", exclude_none=True)).decode()


class TurnStream:
    """The stream of a session's events, or of one turn's, for one client. `TurnStreams.open` makes it."""

    def __init__(
        self, streams: TurnStreams, keys: SessionKeys, subscription: Subscription, turn: TurnFilter | None
    ) -> None:
        self._streams, self._keys, self._turn = streams, keys, turn
        self.subscription = subscription
        """Source of the events, whose outbox shows protocols how fast their clients read."""
        self._gap = "the cursor is older than what is kept, or of another history" if subscription.expired else ""
        """Reason why events are missing, until the client has got a snapshot."""
        self._read_to = subscription.position

    @property
    def position(self) -> bytes:
        """Cursor after which the stream began, or up to which events were read."""
        return self._read_to

    @property
    def over(self) -> bool:
        """Whether the followed turn has ended; always False for a whole session."""
        return self._turn is not None and self._turn.over

    async def read(self) -> Sequence[StreamEvent] | Missed:
        """Return the next events of the session or of the followed turn, perhaps none. Waits during outages of Redis.

        Cancelling it loses no events. Raises ``SlowReaderError`` if more events wait for the client than are kept for
        it: see `catch_up`.
        """
        if self._gap:
            return await self._missed()
        try:
            events = await self.subscription.read()
        except CursorExpiredError as error:
            self._gap = str(error)
            return await self._missed()
        if events:
            self._read_to = events[-1].id
        turn = self._turn
        return events if turn is None else [event for event in events if turn.takes(from_json(event.data))]

    async def catch_up(self) -> None:
        """Subscribe again at the last event that a slow client has read. Raises ``ProblemError`` (503) in an outage."""
        self.subscription.close()
        self.subscription = await self._streams.subscribed(self._keys, self._read_to)

    async def _missed(self) -> Missed:
        position = self.subscription.position
        snapshot = await self._streams.snapshot(self._keys, position)
        why, self._gap, self._read_to = self._gap, "", position
        if self._turn is not None:
            self._turn.takes(from_json(snapshot))
        return Missed(why, position, snapshot)

    def close(self) -> None:
        """Close the subscription. Safe to call twice."""
        self.subscription.close()
