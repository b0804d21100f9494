"""One HTTP/1.1 connection, with or without TLS, on asyncio and httptools. Import late: it imports the HTTP client."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httptools
import httpx2

Origin = tuple[str, int]
"""Host and port of a server."""

_MAX_HEAD_BYTES = 256 * 1024
_PAUSE_ABOVE_BYTES = 256 * 1024
"""Bytes that may wait to be read before the server is held back."""


class ModelConnection(asyncio.Protocol):
    """One connection, which carries one request at a time. The body is read in whatever pieces have come."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._reset()

    def _reset(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._framed = False
        self._complete = False
        self._kept = False
        self._parts: list[bytes] = []
        self._size = 0
        self._error: httpx2.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection is open and has nothing of an answer left on it."""
        return self._kept and self._transport is not None and not self._transport.is_closing()

    async def ask(self, data: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send a request, and return the status and the headers of the response."""
        if self._transport is None:
            raise httpx2.WriteError("the connection is closed")
        self._reset()
        self._resume()
        self._transport.write(data)
        while not self._status:
            await self._wait_for_data()
        return self._status, self._headers

    async def read(self) -> bytes:
        """Return the part of the body that has come, b"" at its end. Raises `httpx2.TransportError` when it breaks
        off."""
        while not self._parts and not self._complete:
            await self._wait_for_data()
        data = b"".join(self._parts)
        self._parts.clear()
        self._resume()
        return data

    def hang_up(self) -> None:
        """Close the connection at once, whatever is on the way."""
        if self._transport is not None:
            self._transport.abort()

    def _resume(self) -> None:
        self._size = 0
        if self._paused and self._transport is not None:
            self._transport.resume_reading()
        self._paused = False

    async def _wait_for_data(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._kept:
            self._kept = False
            self._fail("data that nobody asked for")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"not an HTTP response: {error}")
        self._size += len(data)
        if not self._status and self._size > _MAX_HEAD_BYTES:
            self._fail("the head of the response is too long")
        if self._size > _PAUSE_ABOVE_BYTES and self._transport is not None and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._kept = False
        self._parser = None  # it holds this line as this line holds it
        if not self._complete and self._status and not self._framed and exc is None:
            self._complete = True  # a body without length ends with its connection
        elif not self._complete and self._error is None:
            self._error = httpx2.ReadError(str(exc or "the server closed the connection"))
        self._wake()
        if not self.gone.done():
            self.gone.set_result(None)

    def _fail(self, why: str) -> None:
        self._error = self._error or httpx2.RemoteProtocolError(why)
        self.hang_up()

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        self._framed = self._framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if 100 <= self._status < 200:  # "go on": the real answer follows
            self._status = 0
            self._headers.clear()
        else:
            self._complete = True
            self._kept = bool(self._parser.should_keep_alive())
