"""Uvicorn as a part among others: no signals, no loop of its own, no ticking. Imported when a port is to be served."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from pentad.shared.service.bounded_http import BoundedHttp
from pentad.shared.service.bounded_websocket import BoundedWebSocket
from pentad.shared.service.connections import ConnectionLimits, Connections

FRAME_LIMIT = 1 << 20
"""Longest WebSocket frame, in bytes; a longer one closes the connection with 1009."""


class QuietServer(uvicorn.Server):
    """A server that runs until ``finish`` and leaves signals to whoever owns the process."""

    def __init__(self, app: Any, grace_s: int, limits: ConnectionLimits) -> None:
        connections = Connections(limits)
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=cast(Any, partial(BoundedHttp, connections)),
                ws=cast(Any, partial(BoundedWebSocket, connections)),
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
