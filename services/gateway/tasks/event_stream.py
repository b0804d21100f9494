"""Server-sent events of a session: all of them, or those of one turn."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from pentad.contracts.errors import ErrorCode
from pentad.services.gateway.edge.client_events import error_event
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.keys import SessionKeys

HEARTBEAT_S = 15.0
"""Seconds after which a silent stream sends a comment, so that proxies keep the connection."""
ALIVE = b": alive\n\n"
"""That comment."""
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
"""Headers of a response of server-sent events."""


class EventSource(Protocol):
    """The source of a response of server-sent events."""

    def blocks(self) -> AsyncIterator[bytes]:
        """Return what is sent, piece by piece, until the stream is over."""

    def close(self) -> None:
        """Let go of what the source reads from. Safe to call twice."""


class EventStream:
    """The response: an ASGI app that lasts until the source ends, the client leaves, or the gateway stops.

    One that a token has opened ends with the token.
    """

    def __init__(
        self,
        closing: asyncio.Event,
        source: EventSource,
        left_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``closing`` is set when the gateway stops. The response closes ``source``. ``left_s``: seconds that it may
        last; None: any time. ``headers``: more of the response."""
        self._closing, self._source, self._left_s = closing, source, left_s
        more = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._headers = [*STREAM_HEADERS, *more]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "HEAD":
            self._source.close()
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
            return
        tasks = {
            asyncio.create_task(self._write(send)),
            asyncio.create_task(until_gone(receive)),
            asyncio.create_task(self._closing.wait()),
        }
        try:
            await asyncio.wait(tasks, timeout=self._left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._source.close()
            await cancel_all(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
                raise error
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async for block in self._source.blocks():
            await send({"type": "http.response.body", "body": block, "more_body": True})


class SessionBlocks:
    """The events of a session, or of one turn, as they are. Ends with the turn, or when the client reads too slowly."""

    def __init__(self, keys: SessionKeys, stream: TurnStream) -> None:
        self._keys, self._stream = keys, stream

    def close(self) -> None:
        """Close the subscription."""
        self._stream.close()

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the events, each with its cursor."""
        yield b": hello\n\n"
        while not self._stream.over:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    read = await self._stream.read()
            except TimeoutError:
                yield ALIVE
            except SlowReaderError:
                return
            else:
                yield self._gap(read) if isinstance(read, Missed) else b"".join(map(_block, read))

    def _gap(self, missed: Missed) -> bytes:
        error = error_event(self._keys, ErrorCode.CURSOR_EXPIRED, missed.why)
        return f"data: {error}\n\nid: {missed.position.decode()}\ndata: {missed.snapshot}\n\n".encode()


def _block(event: StreamEvent) -> bytes:
    return f"id: {event.id.decode()}\ndata: {event.text}\n\n".encode()


async def until_gone(receive: Any) -> None:
    """Return when the client has left. Its request is read to the end by then."""
    while (await receive())["type"] != "http.disconnect":
        pass
