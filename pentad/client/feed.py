"""One session's events, in order and each once, across any number of lost connections."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from pentad.client.gateway import Address, Dropped, Socket, opened
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent, SessionEvent, Snapshot, event_adapter
from pentad.errors import Busy, GatewayUnreachable, Refused

T = TypeVar("T")
PATIENCE_S = 60.0
"""Seconds without a connection after which the client gives up."""
STEADY_S = 5.0
"""A connection that held this long makes the next delay short again, as an event does."""
FIRST_DELAY_S, MAX_DELAY_S = 0.1, 3.0
_SNAPSHOT = Snapshot.type_name()

Notice = Callable[[str], None]
"""Told what is being waited for, e.g. ``the connection closed (1012): trying again``."""


@dataclass(frozen=True, slots=True)
class Received:
    """An event as it came: its model, its cursor (None where it has none) and the JSON object itself."""

    event: SessionEvent
    cursor: str | None
    raw: dict[str, Any]


@dataclass(slots=True)
class Unplaced:
    """A message of which it is not known yet where it went."""

    message: dict[str, Any]
    on: Socket | None = None
    """The connection that it was last sent on."""
    again: bool = False
    """Whether an earlier connection has sent it too, and may have had it accepted: "busy" is no refusal then."""
    accepted: bool = False
    """The gateway has taken it on this connection."""


class Feed:
    """Says messages into a session and gives its events. Each is sent until ``delivered``: one id, one message."""

    def __init__(
        self,
        address: Address,
        session_id: str,
        messages: Iterable[dict[str, Any]],
        *,
        after: str | None = None,
        patience_s: float = PATIENCE_S,
        notice: Notice | None = None,
    ) -> None:
        self.session_id = session_id
        self.cursor = after
        self._address = address
        self._unsure = {message["message_id"]: Unplaced(message) for message in messages}
        self._socket: Socket | None = None
        self._sending = asyncio.Lock()
        self._opened_before = False
        self._failures = 0
        self._opened_at = 0.0
        self._lost_at: float | None = None
        self._patience_s = patience_s
        self._notice: Notice = notice or (lambda _: None)

    async def say(self, message: dict[str, Any]) -> None:
        """One message more. What the connection of now does not take goes out with the next."""
        said = self._unsure[message["message_id"]] = Unplaced(message)
        with suppress(Dropped):
            await self._send(said)

    def delivered(self, message_id: str) -> None:
        """The reader has seen what became of this message: it is not sent again."""
        self._unsure.pop(message_id, None)

    async def received(self) -> AsyncGenerator[Received, None]:
        """Every event from now on. Raises ``ClientError`` when going on is of no use. Close it to hang up."""
        while True:
            try:
                async with opened(self._address, self.session_id, self.cursor) as socket:
                    await self._begin(socket)
                    while True:
                        if (received := await self._next(socket)) is not None:
                            yield received
            except Dropped as drop:
                self._socket = None
                await self._wait(drop)

    async def _begin(self, socket: Socket) -> None:
        """The first frame says where the session stands; then go out the messages that may not have arrived."""
        here = await _greeted(self._address, self.session_id, socket)
        if self.cursor is None:
            self.cursor = here
        self._opened_before, self._socket = True, socket
        self._opened_at, self._lost_at = time.monotonic(), None
        for said in [*self._unsure.values()]:
            await self._send(said)

    async def _send(self, said: Unplaced) -> None:
        async with self._sending:  # in the order in which they were said
            if self._socket is None or said.on is self._socket:
                return
            said.again, said.accepted = said.on is not None, False
            said.on = self._socket
            await said.on.send(said.message)

    async def _next(self, socket: Socket) -> Received | None:
        frame = await socket.receive()
        if frame.get("type") == "accepted":
            if (said := self._unsure.get(str(frame.get("message_id")))) is not None:
                said.accepted = True
            return None
        cursor = frame.get("id")
        # A snapshot stands where the session's events are now: before our cursor when they have run out.
        if cursor is not None and frame.get("type") != _SNAPSHOT and not is_after(cursor, self.cursor):
            return None
        event = parse_event(frame, self.session_id)
        if isinstance(event, ErrorEvent) and event.code is ErrorCode.CURSOR_EXPIRED:
            self.cursor = "0"  # what comes after the gap may lie before it, when the store lost its tail
        if cursor is not None:
            self.cursor, self._failures = cursor, 0
        if event is None:
            return None
        return Received(self._ours(event, cursor, frame.get("in_doubt") is True), cursor, frame)

    def _ours(self, event: SessionEvent, cursor: str | None, in_doubt: bool) -> SessionEvent:
        """An ``error`` frame that names no message answers the first that has no answer yet. Raises ``Dropped`` when a
        message that may have been taken meets a busy gateway: its turn may go on, so we wait and say it again."""
        if not isinstance(event, ErrorEvent) or cursor is not None or event.code is ErrorCode.CURSOR_EXPIRED:
            return event
        unanswered = (said for name, said in self._unsure.items() if event.message_id in (None, name))
        said = next((said for said in unanswered if not said.accepted), None)
        if said is None:
            return event
        if event.code is ErrorCode.BUSY and (said.again or in_doubt):
            raise Dropped("the gateway is busy", event.retry_after)
        return event.model_copy(update={"message_id": said.message["message_id"]})

    async def _wait(self, drop: Dropped) -> None:
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
            self._failures = 0 if now - self._opened_at > STEADY_S else self._failures
        if not drop.answered and not self._opened_before:
            raise self._address.unreachable(str(drop)) from None
        if now - self._lost_at > self._patience_s:
            raise self._address.unreachable(f"{drop}, for {self._patience_s:g} s") from None
        self._notice(f"{drop}: trying again")
        delay = backoff(self._failures) if drop.delay is None else drop.delay
        self._failures += 1
        await asyncio.sleep(min(delay, self._patience_s))


async def position(address: Address, session_id: str) -> str:
    """The cursor behind a session's newest event. Raises ``ClientError``."""
    try:
        async with opened(address, session_id, None) as socket:
            return await _greeted(address, session_id, socket)
    except Dropped as drop:
        raise address.unreachable(str(drop)) from None


async def _greeted(address: Address, session_id: str, socket: Socket) -> str:
    """The cursor in a connection's first frame. Raises ``Refused`` where the gateway does not open this session."""
    frame = await socket.receive()
    if frame.get("type") == "error":
        raise Refused(f"the gateway does not open session {session_id!r}: {str(frame.get('message'))[:500]}")
    if frame.get("type") != "session":
        raise address.not_ours()
    return _beginning(frame.get("cursor"))


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row; half of it is chance, so that clients do not come as one."""
    return min(MAX_DELAY_S, FIRST_DELAY_S * float(2 ** min(failures, 10))) * random.uniform(0.5, 1.0)


async def patiently(ask: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Ask a gateway until there is an answer: for what may be asked again without being done twice.

    Raises ``GatewayUnreachable`` and ``Busy`` when there was none for as long as ``patience_s``, and what else it
    raises.
    """
    since, failures = time.monotonic(), 0
    while True:
        try:
            return await ask()
        except (Busy, GatewayUnreachable) as error:
            if time.monotonic() - since > patience_s:
                raise
            told = error.retry_after if isinstance(error, Busy) else None
            await asyncio.sleep(min(backoff(failures) if told is None else told, patience_s))
            failures += 1


def is_after(cursor: str, other: str | None) -> bool:
    """Whether a cursor lies behind another. What cannot be read as one counts as new: better twice than never."""
    try:
        return other is None or _position(cursor) > _position(other)
    except ValueError:
        return True


def _beginning(cursor: str | None) -> str:
    """A cursor to come back to: of a session without events that is the very beginning, not "whatever comes next"."""
    return "0" if cursor is None or not is_after(cursor, "0") else cursor


def _position(cursor: str) -> tuple[int, int]:
    time_part, _, sequence = cursor.partition("-")
    return int(time_part), int(sequence or 0)


def parse_event(frame: dict[str, Any], session_id: str) -> SessionEvent | None:
    """The event in a frame; None for what is none, and for types that a newer gateway may send."""
    about = {"event_id": frame.get("id") or "", "at": "", "tenant_id": "", "session_id": session_id}
    try:
        return event_adapter.validate_python(about | frame)
    except ValidationError:
        return None
