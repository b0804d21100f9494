"""Clients that have turns: ours over the WebSocket, the floor's over its event stream."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from uuid import uuid4

from redis.asyncio import Redis

from tests.bench.turn_floor import EVENTS, INBOUND
from tests.bench.websocket import Socket

QUESTION = "what is (15+27)*3-42/6?"
_MESSAGE = b'{"type":"message","content":"%s"}' % QUESTION.encode()
_RESULT, _ANSWER = b'"result":"119"', b'"content":"word000 word001 word002 word003 word004 word005 word006 word007'
_TURN_S = 30.0
TURNS_PER_SESSION = 25
"""So that what a turn costs is not what its history costs: that is measured apart."""


class Client(Protocol):
    """One user who waits for each answer."""

    async def turn(self) -> float:
        """Have a turn; returns its seconds."""

    async def close(self) -> None:
        """Leave."""


class SocketClient:
    """One WebSocket. ``per_session`` turns later it begins another session."""

    def __init__(self, url: str, per_session: int = TURNS_PER_SESSION) -> None:
        self._url, self._per_session = url, per_session
        self._socket: Socket | None = None
        self._turns = 0
        self._end: asyncio.Future[bytes] | None = None
        self._seen: set[bytes] = set()

    def _on_text(self, text: bytes) -> None:
        if _ANSWER in text:  # as a message, and as a delta when it came in one piece
            self._seen.add(_ANSWER)
        elif _RESULT in text:
            self._seen.add(_RESULT)
        elif b'"type":"task_end"' in text and self._end is not None and not self._end.done():
            self._end.set_result(text)

    async def turn(self) -> float:
        """From sending the message to its `task_end`. Raises ``RuntimeError`` when it was another turn."""
        if self._socket is None or self._turns == self._per_session:
            await self._renew()
        assert self._socket is not None
        self._turns += 1
        self._end = asyncio.get_running_loop().create_future()
        self._seen.clear()
        begun = time.perf_counter()
        self._socket.send(_MESSAGE)
        end = await asyncio.wait_for(self._end, _TURN_S)
        spent = time.perf_counter() - begun
        if len(self._seen) != 2 or b'"status":"completed"' not in end:
            raise RuntimeError(f"not the turn that was meant: {end.decode()}")
        return spent

    async def _renew(self) -> None:
        await self.close()
        self._socket = await Socket.open(self._url, f"bench-{uuid4().hex}", self._on_text)
        self._turns = 0

    async def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class FloorFeed:
    """Reads the floor's events for all of its clients."""

    def __init__(self, url: str) -> None:
        self._redis: Any = Redis.from_url(url, protocol=2)
        self._reader: Any = Redis.from_url(url, protocol=2)
        self._ends: dict[bytes, asyncio.Future[None]] = {}

    async def run(self) -> None:
        """Read for ever."""
        cursor: Any = "0"
        while True:
            for _, entries in await self._reader.xread({EVENTS: cursor}, block=1000) or []:
                for cursor, fields in entries:  # noqa: B007 - the last one is where to go on
                    if fields[b"type"] == b"task_end":
                        self._ends.pop(fields[b"session"]).set_result(None)

    async def turn(self, session: str) -> None:
        """One turn of a session."""
        end = self._ends[session.encode()] = asyncio.get_running_loop().create_future()
        await self._redis.xadd(INBOUND, {"session": session, "content": QUESTION})
        await asyncio.wait_for(end, _TURN_S)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
        await self._reader.aclose()


class FloorClient:
    """One user of the floor."""

    def __init__(self, feed: FloorFeed) -> None:
        self._feed = feed
        self._turns = 0
        self._session = ""

    async def turn(self) -> float:
        """From the message to its end."""
        if self._turns % TURNS_PER_SESSION == 0:
            self._session = f"bench-{uuid4().hex}"
        self._turns += 1
        begun = time.perf_counter()
        await self._feed.turn(self._session)
        return time.perf_counter() - begun

    async def close(self) -> None:
        """Nothing to leave."""


async def have_turns(make: Callable[[], Client], clients: int, each: int) -> list[float]:
    """So many clients at once, so many turns each; returns the seconds of every turn."""

    async def one() -> list[float]:
        client = make()
        try:
            return [await client.turn() for _ in range(each)]
        finally:
            await client.close()

    spent = await asyncio.gather(*(one() for _ in range(clients)))
    return [seconds for turns in spent for seconds in turns]


Turns = Callable[[int, int], Awaitable[list[float]]]
"""`have_turns` of one kind of client."""
