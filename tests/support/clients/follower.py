"""A client that never gives up: it keeps one session's events open, comes back with its cursor, sends again with the
same id what was not accepted or was lost, and writes down what it saw.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

Event = dict[str, Any]
DURABLE = frozenset(
    {
        "message_routed",
        "message_moved",
        "task_start",
        "message",
        "tool_call",
        "tool_result",
        "task_status",
        "task_end",
    }
)
_SILENCE_S = 3.0
"""Seconds without an event of an accepted message after which its sender sends it again."""
_AGAIN_S = 0.5
_PATIENCE: dict[str, Any] = {"open_timeout": 2, "ping_interval": 1, "ping_timeout": 2}
"""Time limits of connections: a hanging gateway keeps them open, so clients must notice it."""


@dataclass(frozen=True, slots=True)
class NextEntry:
    """An event as a client saw it, with its time by the server's clock and the time when the client got it.

    Both times are converted to the client's monotonic clock.
    """

    happened: float
    learnt: float
    what: str
    about: Event
    """Event, or frame that accepts a message."""

    @property
    def tells(self) -> str:
        """Return the type of the event, with the status if it has one."""
        return f"{self.what} {self.about['status']}" if self.what == "task_status" else self.what


class _StartOverError(Exception):
    """The server has another history than the client, so that the client's events are void."""


class Follower:
    """Follows one session over whichever gateway answers, by WebSocket."""

    def __init__(self, gateways: Callable[[], Sequence[str]], session: str, first: int = 0) -> None:
        self._gateways, self.session, self._turn = gateways, session, first
        self.events: list[dict[str, Any]] = []
        """Events of the server's present history."""
        self.cursor = "0"
        self.reconnects = -1
        self.started_over = 0
        """Number of times that the server said that the cursor belongs to another history."""
        self.sent_again = 0
        self.accepted: set[str] = set()
        """Ids of messages that a gateway has accepted."""
        self.news: list[NextEntry] = []
        """Acceptances of messages and durable events in the order in which they first came."""
        self.faults: list[str] = []
        self._sent: dict[str, tuple[float, dict[str, Any]]] = {}
        """Time of the last attempt of each message, with the message."""
        self._known: set[str] = set()
        self._promised: set[str] = set()
        """Ids of messages that were ever accepted."""
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: ClientConnection | None = None
        self._text: dict[tuple[str, int], tuple[int, str]] = {}

    async def __aenter__(self) -> "Follower":
        self._tasks = [asyncio.create_task(loop) for loop in (self._run(), self._insist())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, content: str, message_id: str, **fields: Any) -> None:
        """Send a message; it is sent again until the session's events show that it was taken."""
        await self._send({"content": content, "message_id": message_id, **fields})

    def seen(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type."""
        return [e for e in self.events if e["type"] == kind]

    async def _send(self, message: dict[str, Any]) -> None:
        self._sent[message["message_id"]] = (time.monotonic(), message)
        with suppress(WebSocketException, OSError, TimeoutError):
            await self._write(message)

    async def _write(self, message: dict[str, Any]) -> None:
        if self._connection is not None:
            await self._connection.send(json.dumps({"type": "message", **message}))

    async def _insist(self) -> None:
        """Send messages without events again with the same id: at once if refused, else after a silence."""
        while True:
            await asyncio.sleep(_AGAIN_S / 2)
            taken = {e["message_id"] for e in self.seen("message_routed")}
            for message_id, (at, message) in list(self._sent.items()):
                patience = _SILENCE_S if message_id in self.accepted else _AGAIN_S
                if message_id not in taken and time.monotonic() - at > patience:
                    self.sent_again += 1
                    await self._send(message)

    async def _run(self) -> None:
        while True:
            urls = self._gateways()
            url = urls[self._turn % len(urls)]
            self._turn += 1
            with suppress(WebSocketException, OSError, TimeoutError, _StartOverError):
                await self._follow(url)
            self._connection = None
            await asyncio.sleep(0.05)

    async def _follow(self, url: str) -> None:
        address = f"{url.replace('http', 'ws', 1)}/v1/ws?session_id={self.session}&after={self.cursor}"
        async with connect(address, proxy=None, **_PATIENCE) as connection:
            self.reconnects += 1
            self._connection = connection
            for message_id, (_, message) in list(self._sent.items()):
                if message_id not in self.accepted:
                    await self._send(message)
            async for text in connection:
                self._take(json.loads(text))

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "accepted":
            if event["message_id"] not in self._promised:
                self._promised.add(event["message_id"])
                self.news.append(NextEntry(time.monotonic(), time.monotonic(), "accepted", event))
            self.accepted.add(event["message_id"])
        elif kind == "error":
            self._refused(event)
        if "id" in event:
            self._keep(event)

    def _refused(self, event: dict[str, Any]) -> None:
        """Handle an error: a message was refused or lost, or the cursor belongs to another history."""
        if event["code"] == "cursor_expired":
            self.started_over += 1
            self.events, self.cursor, self._text = [], "0", {}
            raise _StartOverError
        if "id" not in event:
            self.events.append(event)
        if event.get("message_id") in self._sent:
            self.accepted.discard(event["message_id"])

    def _keep(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if _order(event["id"]) <= _order(self.cursor):
            self.faults.append(f"{self.session}: {event['id']} after {self.cursor}")
        self.cursor = event["id"]
        if kind == "content":
            self._assemble(event)
        elif kind == "message":
            self._compare(event)
        self.events.append(event)
        if kind in DURABLE and event["event_id"] not in self._known:
            self._known.add(event["event_id"])
            now, ago = time.monotonic(), time.time() - datetime.fromisoformat(event["at"]).timestamp()
            self.news.append(NextEntry(now - ago, now, kind, event))

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
