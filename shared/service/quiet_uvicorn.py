"""Uvicorn as a part among others: no signals, no loop of its own, no ticking. Imported when a port is to be served."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

FRAME_LIMIT = 1 << 20
"""Longest WebSocket frame, in bytes; a longer one closes the connection with 1009."""


_MOST_CORKED = 1 << 16  # bytes


class _Corked:
    """A transport that sends once in a turn of the loop what was written in it: a frame alone costs as much.

    What is much goes at once: only what was sent can pause the writer.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._written: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._written:
            asyncio.get_running_loop().call_soon(self._send)
        self._written.append(data)
        self._size += len(data)
        if self._size > _MOST_CORKED:
            self._send()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written, self._size = self._written, [], 0
        if written and not self._transport.is_closing():  # uvloop raises when the client has gone meanwhile
            self._transport.write(b"".join(written))


class _WebSocket(WebSocketsSansIOProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, _Corked(transport)))


class _Http(HttpToolsProtocol):
    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        # It holds this protocol as this protocol holds it: together they would wait for the garbage collector.
        self.parser = None  # type: ignore[assignment]


class QuietServer(uvicorn.Server):
    """A server that runs until ``finish`` and leaves signals to whoever owns the process."""

    def __init__(self, app: Any, grace_s: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=_Http,
                ws=_WebSocket,
                ws_max_size=FRAME_LIMIT,
                ws_per_message_deflate=False,
                lifespan="off",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=grace_s,
            )
        )
        self.config.load()
        self.up = asyncio.Event()
        self._finish = asyncio.Event()

    def finish(self) -> None:
        """Stop accepting, close WebSockets with 1012, let answers end, close."""
        self.should_exit = True
        self._finish.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._finish.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
