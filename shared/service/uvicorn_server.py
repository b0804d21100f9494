"""Uvicorn as a part of a service: no signals, no loop of its own, and bounds on what a client may send and how long.

Import it only when a port is to be served: uvicorn is slow to import.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pentad.shared.service.bounded_websocket import BoundedWebSocket
from pentad.shared.service.connections import ConnectionLimits, Connections, Patience
from pentad.shared.service.problem_document import last_answer
from pentad.shared.telemetry import ThrottledLog

FRAME_LIMIT = 1 << 20
"""Longest WebSocket frame, in bytes; a longer one closes the connection with 1009."""
HEAD_LIMIT = 1 << 16
"""Bytes of a request's head; likewise of what a body has besides its data, trailers above all."""
_PARSED_BYTES = 4096
"""Bytes that are shown to the parser at once, of what is more than one request of usual size."""
_MAX_WAITING_BYTES = 1 << 20
"""Bytes that may wait behind requests that are not answered yet."""
_LINGER_S = 2.0
"""Seconds that a refused client may go on sending: closing immediately would lose the answer."""
_say = ThrottledLog(logging.getLogger(__name__))


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


class BoundedHttp(HttpToolsProtocol):
    """One connection of HTTP/1.1. Counts the bytes since a head was whole or data of a body came."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self.address = ""
        self._connections = connections
        self._patience = Patience()
        self._unplaced = self._heads = self._drains = 0
        self._rest = b""
        """Bytes that have come behind requests that are not answered yet."""
        self._refused = False

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def look(self, now: float) -> None:
        """See ``OpenConnection``."""
        limits = self._connections.limits
        state, limit = self._state(), 0.0
        if state == "closing":
            limit = limits.close_s
        elif state == "unread":
            limit = limits.read_s
        elif state:
            limit = limits.body_s if state == "body" else limits.head_s
        lasted = self._patience.lasted(now, state, self._heads, self._drains)
        if not state or lasted <= limit:
            return
        if state == "body" or (state == "head" and self._asked_for_half):
            self._refuse(408, f"the request was not whole after {limit:g} s")
        else:
            self.hang_up()

    def _state(self) -> str:
        """Return what the connection waits for the client to do; '' when the server has to act."""
        if self.transport.is_closing():
            return "closing"
        if self.flow.write_paused:
            return "unread"
        if self.idle:
            return "head"
        return "body" if self.cycle.more_body else ""

    @property
    def _asked_for_half(self) -> bool:
        """Whether a head has begun and is not whole."""
        return self.scope is not None and (self.cycle is None or self.cycle.scope is not self.scope)

    def hang_up(self) -> None:
        """See ``OpenConnection``."""
        self.transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if full := self._connections.admit(self):
            self.transport.write(last_answer(503, f"{full}: come back later"))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._drains += 1
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.pipeline or self._rest:
            self._keep(self._rest + data)
        elif len(data) <= _PARSED_BYTES and self._unplaced + len(data) <= HEAD_LIMIT:
            self._unplaced += len(data)
            super().data_received(data)
        else:
            self._take_in_pieces(data)

    def _take_in_pieces(self, data: bytes) -> None:
        """The parser is shown what may be a head, and no more requests than can be answered soon."""
        at = 0
        while at < len(data) and not (self._refused or self.parser is None or self.transport.is_closing()):
            if self.pipeline:
                self._keep(data[at:])
                return
            if self._unplaced >= HEAD_LIMIT:
                self._refuse(431, f"a request's head and its trailers have at most {HEAD_LIMIT} bytes")
                return
            piece = data[at : at + min(_PARSED_BYTES, HEAD_LIMIT - self._unplaced)]
            at += len(piece)
            self._unplaced += len(piece)
            super().data_received(piece)

    def _keep(self, data: bytes) -> None:
        """Requests wait for those before them: each that is read costs a hundred times its bytes."""
        self._rest = data
        self.flow.pause_reading()
        if len(data) > _MAX_WAITING_BYTES:
            self.hang_up()

    def on_response_complete(self) -> None:
        """Called by the answer, once it is whole."""
        super().on_response_complete()
        if self.pipeline or self._rest:
            self.flow.pause_reading()
            if not self.pipeline:
                self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.idle:
            rest, self._rest = self._rest, b""
            self.flow.resume_reading()
            self._take_in_pieces(rest)

    def _refuse(self, status: int, detail: str) -> None:
        """Answer, unless an answer has begun, and take nothing more."""
        _say.warning(f"refused {status}", "a request of %s is refused (%d): %s", self.address, status, detail)
        self._refused, self._unplaced = True, HEAD_LIMIT
        cycle = self.cycle
        unread = cycle is not None and cycle.more_body
        if not self.idle:
            if cycle.response_started:
                self.hang_up()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_reading()
        if not (self.idle and unread):
            self.transport.write(last_answer(status, detail))
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser cannot read."""
        self._refuse(400, "what came is no request of HTTP/1.1")

    # What the parser calls

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._unplaced, self._heads = 0, self._heads + 1
        if self.cycle is not None and self.cycle.scope is self.scope:
            self.headers = []  # trailers are not headers: nobody reads them

    def on_body(self, body: bytes) -> None:
        self._unplaced = 0
        super().on_body(body)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        socket = cast(BoundedWebSocket, self.transport.get_protocol())
        self._connections.hand_over(self, socket)
        # It holds this protocol as this protocol holds it: together they would wait for the garbage collector.
        self.parser = None  # type: ignore[assignment]
        socket.refuse_unread_handshake()
