"""WebSockets as uvicorn speaks them: frames sent together, and an end to what a client may have us keep."""

import asyncio
import logging
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Response
from websockets.server import ServerProtocol

from pentad.shared.service.connections import Connections, Patience
from pentad.shared.service.problem_document import MEDIA_TYPE, last_answer, problem_document
from pentad.shared.telemetry import ThrottledLog

_MAX_CORKED_BYTES = 1 << 16


class Corked:
    """A transport that sends once in a turn of the loop what was written in it: a frame alone costs as much.

    Large data is sent immediately: only data that was sent can pause the writer.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._written: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, soon."""
        if not self._written:
            asyncio.get_running_loop().call_soon(self._send)
        self._written.append(data)
        self._size += len(data)
        if self._size > _MAX_CORKED_BYTES:
            self._send()

    def close(self) -> None:
        """Send what is left, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written, self._size = self._written, [], 0
        if written and not self._transport.is_closing():  # uvloop raises when the client has gone meanwhile
            self._transport.write(b"".join(written))


_PIECE = 16 * 1024
"""Bytes that are read at once: of the smallest frames some 50 ms of work."""
_say = ThrottledLog(logging.getLogger(__name__))


class _Handshakes(ServerProtocol):
    """Refuses a handshake with a problem document."""

    def reject(self, status: int, text: str) -> Response:
        response = super().reject(status, "")
        response.body = problem_document(status, " ".join(text.split()))
        del response.headers["Content-Type"], response.headers["Content-Length"]
        response.headers["Content-Type"] = MEDIA_TYPE
        response.headers["Content-Length"] = str(len(response.body))
        return response


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self.address = ""
        self._connections = connections
        self._patience = Patience()
        self._full = False
        """Whether the client leaves unread what it was sent."""
        self._drains = 0
        self._rest = b""
        """Bytes that have come and are not read yet."""
        self.conn = _Handshakes(max_size=self.config.ws_max_size, logger=self.logger)

    idle = False

    def look(self, now: float) -> None:
        """See ``OpenConnection``. One that answers no ping is closed by uvicorn."""
        limits = self._connections.limits
        closing = self.transport.is_closing()
        lasted = self._patience.lasted(now, closing, self._full, self._drains)
        if (closing and lasted > limits.close_s) or (self._full and lasted > limits.read_s):
            self.hang_up()

    def hang_up(self) -> None:
        """See ``OpenConnection``."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, Corked(transport)))
        self.address = self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._full = False
        self._drains += 1
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read large data in pieces, with a turn of the loop for others between: it may hold very many frames."""
        if self._rest:
            self._rest += data
        elif len(data) <= _PIECE:
            super().data_received(data)
        else:
            self._rest = data
            self.transport.pause_reading()
            self._read_piece()

    def _read_piece(self) -> None:
        piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
        if self.transport.is_closing():
            self._rest = b""
            return
        super().data_received(piece)
        if self._rest:
            self.loop.call_soon(self._read_piece)
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def refuse_unread_handshake(self) -> None:
        """A head that the library takes for none is answered and told: uvicorn does neither."""
        if self.handshake_initiated:
            return
        _say.warning("handshake", "a WebSocket handshake of %s is refused: %s", self.address, self.conn.handshake_exc)
        refusal = b"".join(self.conn.data_to_send())
        self.transport.write(refusal or last_answer(400, "this is no WebSocket handshake: one has no body"))
        self.transport.close()

    def handle_ping(self) -> None:
        """A client that does not read gets no pong: what it sends would be kept for it."""
        if self._full:
            self.conn.data_to_send()
        else:
            super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        """Drop continuation frames without content, which would not count towards the longest message."""
        if event.data or event.fin:
            super().handle_cont(event)
