"""One WebSocket to one session, as any client would open it: what is said, what is heard, in order.

async with Line(url, "s1") as line:
    await line.say("what is 6*7?")
    end = await line.until("task_end")
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.waiting import PATIENCE_S, wait_until

Event = dict[str, Any]
Wanted = Callable[[Event], bool]


class Line:
    """A connection. ``frames`` are all frames of the server, ``events`` those that are on the session's stream."""

    def __init__(self, url: str, session: str, after: str | None = None) -> None:
        cursor = "" if after is None else f"&after={after}"
        self._url = f"{url.replace('http', 'ws', 1)}/v1/ws?session_id={session}{cursor}"
        self.session = session
        self.frames: list[Event] = []
        self._socket: ClientConnection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._said = 0

    async def __aenter__(self) -> "Line":
        self._socket = await connect(self._url, open_timeout=PATIENCE_S, close_timeout=1, proxy=None, max_size=None)
        self._listening = asyncio.create_task(self._listen(self._socket))
        await wait_until("the first frame", lambda: self.frames)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._socket is not None
        assert self._listening is not None
        await self._socket.close()
        await self._listening

    async def _listen(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                self.frames.append(json.loads(text))
        except ConnectionClosed:
            return

    async def send(self, **frame: Any) -> None:
        """Send one frame."""
        assert self._socket is not None
        await self._socket.send(json.dumps(frame))

    async def say(self, content: str, message_id: str | None = None, **more: Any) -> str:
        """Send a message and wait until it is accepted; returns its id."""
        self._said += 1
        message_id = message_id or f"{self.session}-m{self._said}"
        before = len(self.answers("accepted"))
        await self.send(type="message", content=content, message_id=message_id, **more)
        await wait_until(f"message {message_id} to be accepted", lambda: len(self.answers("accepted")) > before)
        assert self.answers("accepted")[-1] == {"type": "accepted", "message_id": message_id}
        return message_id

    def answers(self, kind: str) -> list[Event]:
        """Frames of one type, events or not."""
        return [f for f in self.frames if f["type"] == kind]

    @property
    def events(self) -> list[Event]:
        return [f for f in self.frames if "id" in f]

    @property
    def cursor(self) -> str:
        """Cursor of the last event."""
        return str(self.events[-1]["id"]) if self.events else str(self.frames[0]["cursor"])

    async def until(
        self, kind: str, wanted: Wanted | None = None, count: int = 1, seconds: float = PATIENCE_S
    ) -> Event:
        """Wait until ``count`` frames of a type have come that are wanted; returns the last of them."""

        def found() -> list[Event]:
            return [f for f in self.answers(kind) if wanted is None or wanted(f)]

        def enough() -> bool:
            return len(found()) >= count

        try:
            await wait_until(f"{count} {kind} in {self.session}", enough)
        except AssertionError as error:
            raise AssertionError(f"{error}; heard: {json.dumps(self.frames[-30:], indent=1)}") from None
        return found()[count - 1]

    async def turn(self, content: str, count: int = 1, **more: Any) -> Event:
        """Say something and wait for the ``count``-th end of a task on this connection."""
        await self.say(content, **more)
        return await self.until("task_end", count=count)
