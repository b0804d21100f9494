"""A client that never gives up: it keeps one session's WebSocket open, comes back with its cursor, and writes down
what it saw.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

DURABLE = frozenset({"message_routed", "task_start", "message", "tool_call", "tool_result", "task_status", "task_end"})


class Follower:
    """Follows one session over whichever gateway answers."""

    def __init__(self, gateways: Callable[[], Sequence[str]], session: str) -> None:
        self._gateways, self.session = gateways, session
        self.events: list[dict[str, Any]] = []
        self.cursor = "0"
        self.reconnects = -1
        self._outbox: dict[str, dict[str, Any]] = {}
        self._connection: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self.faults: list[str] = []
        self._text: dict[tuple[str, int], tuple[int, str]] = {}

    async def __aenter__(self) -> "Follower":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def send(self, content: str, message_id: str, **fields: Any) -> None:
        """Send a message; it is sent again after every reconnect until it is accepted."""
        frame = {"type": "message", "content": content, "message_id": message_id, **fields}
        self._outbox[message_id] = frame
        if self._connection is not None:
            with suppress(WebSocketException, OSError):
                await self._connection.send(json.dumps(frame))

    def seen(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type."""
        return [e for e in self.events if e["type"] == kind]

    async def _run(self) -> None:
        turn = 0
        while True:
            urls = self._gateways()
            url = urls[turn % len(urls)].replace("http", "ws", 1)
            turn += 1
            with suppress(WebSocketException, OSError, TimeoutError):
                await self._follow(f"{url}/v1/ws?session_id={self.session}&after={self.cursor}")
            self._connection = None
            await asyncio.sleep(0.05)

    async def _follow(self, url: str) -> None:
        async with connect(url, open_timeout=5, proxy=None) as connection:
            self.reconnects += 1
            self._connection = connection
            for frame in list(self._outbox.values()):
                await connection.send(json.dumps(frame))
            async for text in connection:
                self._take(json.loads(text))

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "accepted":
            self._outbox.pop(event["message_id"], None)
            return
        if "id" not in event:
            if kind == "error":
                self.events.append(event)
            return
        if _order(event["id"]) <= _order(self.cursor):
            self.faults.append(f"{self.session}: {event['id']} after {self.cursor}")
        self.cursor = event["id"]
        if kind == "content":
            self._assemble(event)
        elif kind == "message":
            self._compare(event)
        self.events.append(event)

    def _assemble(self, event: dict[str, Any]) -> None:
        key = (event["task_id"], event["step"])
        attempt, text = self._text.get(key, (0, ""))
        if event["attempt"] < attempt:
            self.faults.append(f"{self.session}: attempt {event['attempt']} of step {key} came after {attempt}")
            return
        if event["attempt"] > attempt:
            attempt, text = event["attempt"], ""
        if event["offset"] != len(text):
            self.faults.append(f"{self.session}: delta at {event['offset']} but {len(text)} characters are known")
        self._text[key] = (attempt, text[: event["offset"]] + event["content"])

    def _compare(self, event: dict[str, Any]) -> None:
        attempt, text = self._text.get((event["task_id"], event["step"]), (0, ""))
        if attempt == event["attempt"] and not event["content"].startswith(text):
            self.faults.append(f"{self.session}: deltas {text!r} are no beginning of {event['content']!r}")


def _order(cursor: str) -> tuple[int, int]:
    at, _, number = cursor.partition("-")
    return int(at), int(number or 0)
