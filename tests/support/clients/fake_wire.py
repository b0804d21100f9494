"""The WebSocket side of the fake gateway: a plan of what goes wrong, and a connection that follows it."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

Json = dict[str, Any]
Script = Callable[[Json], Iterable[Json]]
AT = "2030-01-31T12:00:00.000Z"


def nothing(_: Json) -> Iterable[Json]:
    """The script of a gateway that takes messages and does nothing with them."""
    return []


@dataclass
class Plan:
    """The plan of a fake gateway: its next misbehaviour, and the requests that it has seen, as data."""

    script: Script = nothing
    cut_after: deque[int] = field(default_factory=deque)
    """Number of events after which each next connection is cut; without an entry it never is."""
    close_after: deque[tuple[int, int]] = field(default_factory=deque)
    """Number of events and the close code for each next connection."""
    swallow_accept: int = 0
    """Number of messages that are accepted without a confirmation, before the connection is cut."""
    error_frames: deque[Json] = field(default_factory=deque)
    """Errors with which the next messages are refused."""
    repeat: bool = False
    """Whether every event is sent twice."""
    snapshot: Json | None = None
    """Snapshot for the next connection with a cursor, which is then expired; None: no cursor expires."""
    greeting: Json | None = None
    events: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    messages: list[Json] = field(default_factory=list)
    """Every message frame that came, repeats too."""
    connections: list[dict[str, str]] = field(default_factory=list)
    """Query of every WebSocket connection."""
    _seen: set[tuple[str, str]] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, session: str, *events: Json) -> None:
        """Append events to a session and let everyone who follows it know."""
        for event in events:
            number = sum(map(len, self.events.values())) + 1
            envelope = {"id": f"1700000000000-{number}", "event_id": f"e{number}", "at": AT, "tenant_id": "default"}
            self.events[session].append(envelope | {"session_id": session, "version": 1} | event)
        self.news.set()
        self.news = asyncio.Event()

    def take(self, session: str, message: Json) -> None:
        """Take a message once; its script's events follow."""
        self.messages.append(message)
        if (session, message["message_id"]) not in self._seen:
            self._seen.add((session, message["message_id"]))
            self.say(session, *self.script(message))


class Wire:
    """One WebSocket: reads messages, sends the session's events, and breaks where it was told to."""

    def __init__(
        self,
        gateway: Plan,
        head: bytes,
        query: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._gateway = gateway
        self._reader, self._writer = reader, writer
        self._session = query.get("session_id", "s-fake")
        self._after = query.get("after")
        self._protocol = ServerProtocol(subprotocols=["pentad.v1"])  # type: ignore[list-item]
        self._protocol.receive_data(head)
        gateway.connections.append(query)
        self._cut = gateway.cut_after.popleft() if gateway.cut_after else None
        self._close = gateway.close_after.popleft() if gateway.close_after else None

    async def run(self) -> None:
        """Serve until either side is gone."""
        [request] = self._protocol.events_received()
        self._protocol.send_response(self._protocol.accept(request))  # type: ignore[arg-type]
        position = self._begin()
        await self._flush()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_gone(self._read()))
                group.create_task(self._until_gone(self._relay(position)))
        except* ConnectionError:
            pass

    async def _until_gone(self, work: Awaitable[None]) -> None:
        await work
        raise ConnectionResetError

    def _begin(self) -> int:
        """Greet, and find the place to go on from."""
        events, gateway = self._gateway.events[self._session], self._gateway
        newest = events[-1]["id"] if events else "0-0"
        self._send(
            gateway.greeting or {"type": "session", "session_id": self._session, "cursor": self._after or newest}
        )
        if self._after not in (None, "0") and gateway.snapshot is not None:
            expired = {"type": "error", "code": "cursor_expired", "message": "older than what is kept"}
            self._send(expired | {"session_id": self._session})
            self._send({"type": "snapshot", "session_id": self._session, "id": newest} | gateway.snapshot)
            gateway.snapshot = None
            return len(events)
        if self._after is None:
            return len(events)
        return sum(1 for event in events if _number(event["id"]) <= _number(self._after))

    async def _relay(self, position: int) -> None:
        sent = 0
        while True:
            news = self._gateway.news
            for event in self._gateway.events[self._session][position:]:
                await self._break_if_due(sent)
                self._send(event)
                if self._gateway.repeat:
                    self._send(event)
                await self._flush()
                sent, position = sent + 1, position + 1
            await self._break_if_due(sent)
            await news.wait()

    async def _break_if_due(self, sent: int) -> None:
        if self._cut is not None and sent >= self._cut:
            raise ConnectionResetError
        if self._close is not None and sent >= self._close[0]:
            self._protocol.send_close(self._close[1])
            await self._flush()
            raise ConnectionResetError

    async def _read(self) -> None:
        while data := await self._reader.read(65536):
            self._protocol.receive_data(data)
            for frame in self._protocol.events_received():
                assert isinstance(frame, Frame)
                if frame.opcode is Opcode.TEXT:
                    self._hear(json.loads(bytes(frame.data)))
                if frame.opcode is Opcode.CLOSE:
                    await self._flush()
                    return
            await self._flush()

    def _hear(self, frame: Json) -> None:
        gateway = self._gateway
        if frame["type"] != "message":
            return
        if gateway.error_frames:
            self._send({"type": "error", "session_id": self._session} | gateway.error_frames.popleft())
            return
        if gateway.swallow_accept:
            gateway.swallow_accept -= 1
            self._writer.transport.abort()
            gateway.take(self._session, frame)
            raise ConnectionResetError
        self._send({"type": "accepted", "message_id": frame["message_id"]})
        gateway.take(self._session, frame)

    def _send(self, frame: Json) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(json.dumps(frame).encode())

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
        await self._writer.drain()


def _number(cursor: str) -> tuple[int, int]:
    time_part, _, sequence = cursor.partition("-")
    return int(time_part), int(sequence or 0)
