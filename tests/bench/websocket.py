"""A WebSocket client that costs next to nothing: it shares two cores with what it measures.

It speaks just enough of RFC 6455 for a loopback server that it trusts: text frames, ping, close; no fragments.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_OPEN_S = 10.0


class Socket(asyncio.Protocol):
    """One connection. ``on_text`` is called with each text frame as it comes."""

    def __init__(self, request: bytes, on_text: Callable[[bytes], None]) -> None:
        self._request, self.on_text = request, on_text
        self._buffer = b""
        self._upgraded = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self.closed = False

    @classmethod
    async def open(
        cls, url: str, session: str, on_text: Callable[[bytes], None] = lambda _: None, after: str = ""
    ) -> "Socket":
        """Connect to a gateway's ``/v1/ws``. Raises ``OSError`` when it does not take us."""
        where = urlsplit(url)
        tail = f"&after={after}" if after else ""
        request = (
            f"GET /v1/ws?session_id={session}{tail} HTTP/1.1\r\nHost: {where.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        loop = asyncio.get_running_loop()
        assert where.hostname is not None
        assert where.port is not None
        _, socket = await loop.create_connection(lambda: cls(request.encode(), on_text), where.hostname, where.port)
        try:
            await asyncio.wait_for(socket._opened, _OPEN_S)
        except TimeoutError:
            socket.close()
            raise OSError(f"{url} did not answer") from None
        return socket

    def send(self, text: bytes) -> None:
        """Send a text frame."""
        self._frame(_TEXT, text)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._upgraded or self._upgrade():
            self._frames()

    def _upgrade(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        self._upgraded = head.startswith(b"HTTP/1.1 101 ")
        self._buffer = rest
        if not self._upgraded:
            self._opened.set_exception(ConnectionError(head.split(b"\r\n", 1)[0].decode()))
            self.close()
        else:
            self._opened.set_result(None)
        return self._upgraded

    def _frames(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 2:
            size, start = buffer[at + 1], at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                if len(buffer) < start + width:
                    break
                size, start = int.from_bytes(buffer[start : start + width], "big"), start + width
            if len(buffer) < start + size:
                break
            self._take(buffer[at] & 15, buffer[start : start + size])
            at = start + size
        self._buffer = buffer[at:]

    def _take(self, kind: int, body: bytes) -> None:
        if kind == _TEXT:
            self.on_text(body)
        elif kind == _PING:
            self._frame(_PONG, body)
        elif kind == _CLOSE:
            self.close()

    def _frame(self, kind: int, body: bytes) -> None:
        """Masked with zeros, which is a mask like any other and costs nothing."""
        size = len(body)
        if size < 126:
            head = bytes((0x80 | kind, 0x80 | size))
        elif size < 1 << 16:
            head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
        if self._transport is not None:
            self._transport.write(head + b"\0\0\0\0" + body)
