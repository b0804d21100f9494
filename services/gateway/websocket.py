"""`/v1/ws`: a session's events and a client's commands over one WebSocket, on the bare ASGI interface.

One writer sends the events; the reader answers commands as they come. Nothing is kept for a client that is gone.
"""

import asyncio
import contextlib
import logging
from typing import Any

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_external_id, is_identifier
from pentad.services.gateway.domain.frames import UnreadableError, command_of, control_of, read_message, read_object
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.parts import Parts, as_text
from pentad.services.gateway.tasks.message_intake import new_message_id
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream
from pentad.shared import metrics
from pentad.shared.cancelling import cancel_all
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.keys import SessionKeys

log = logging.getLogger(__name__)

BAD_KEY, TOO_SLOW, REFUSED, BROKEN = 4401, 1013, 1008, 1011


class WebSocketSession:
    """One open connection, from the handshake's end to its close."""

    def __init__(self, parts: Parts, keys: SessionKeys, stream: TurnStream, receive: Any, send: Any) -> None:
        self._parts, self._keys, self._stream = parts, keys, stream
        self._receive, self._send = receive, send

    async def run(self) -> None:
        """Serve until either side closes."""
        metrics.websockets.labels().inc()
        self._stream.subscription.on_overflow = self._hurry
        cursor = self._stream.position.decode()
        writer = asyncio.create_task(self._write(cursor))
        try:
            await self._read()
        except OSError:  # uvicorn's "client disconnected"
            pass
        finally:
            metrics.websockets.labels().dec()
            self._stream.close()
            await cancel_all([writer])

    async def _write(self, cursor: str) -> None:
        try:
            await self._text(as_text({"type": "session", "session_id": self._keys.session, "cursor": cursor}))
            while await self._write_some():
                pass
        except OSError:  # uvicorn's "client disconnected"
            pass
        except Exception:
            log.exception("the events of a session cannot be sent")
            await close(self._send, BROKEN, "internal error")

    async def _write_some(self) -> bool:
        """Send what has come; False once the connection is closed."""
        subscription, send = self._stream.subscription, self._send
        try:
            read = await self._stream.read()
        except SlowReaderError as error:
            await close(self._send, TOO_SLOW, str(error))
            return False
        if isinstance(read, Missed):
            await self._text(self._parts.error(self._keys, ErrorCode.CURSOR_EXPIRED, read.why))
            await self._text(read.snapshot)
            return True
        for event in read:
            if subscription.overflown:
                break
            await send({"type": "websocket.send", "text": event.text})
        return True

    async def _read(self) -> None:
        while (frame := await self._receive())["type"] != "websocket.disconnect":
            if frame["type"] == "websocket.receive":
                await self._text(await self._answer(frame.get("text") or frame.get("bytes") or ""))

    async def _answer(self, raw: str | bytes) -> str | None:
        """What a client's frame is answered with, if anything."""
        body: dict[str, Any] = {}
        try:
            body = read_object(raw)
            return await self._obey(command_of(body), body)
        except UnreadableError as error:
            return self._parts.error(self._keys, ErrorCode.BAD_MESSAGE, str(error), message_id=_message_id(body))
        except ProblemError as error:
            code = error.code or ErrorCode.INTERNAL
            more = {"message_id": error.message_id or _message_id(body), "retry_after": error.retry_after}
            return self._parts.error(self._keys, code, error.detail, in_doubt=error.in_doubt, **more)
        except Exception:
            log.exception("a client's frame cannot be answered")
            return self._parts.error(self._keys, ErrorCode.INTERNAL, "this is our fault: see the gateway's log")

    async def _obey(self, command: str, body: dict[str, Any]) -> str | None:
        if command == "ping":
            return '{"type":"pong"}'
        if (control := control_of(command)) is not None:
            task = body.get("task_id")
            if not isinstance(task, str) or not is_identifier(task):
                raise UnreadableError("task_id: a task's id is expected")
            await self._parts.control.ask(control, self._keys.tenant, task, self._keys.session)
            return None
        if command == "move":
            asked, keys = read_move(body), self._keys
            task = await self._parts.moving.task_with(keys, asked.message_id)
            await self._parts.moving.move(keys.tenant, task, asked, keys.session)
            return None
        given = {name: value for name, value in body.items() if name != "type"}
        message = read_message(given, self._keys.tenant, self._keys.session, new_message_id())
        try:
            if given.get("message_id") is not None:
                await self._parts.accepting.is_repeat(message, self._keys)
            return as_text({"type": "accepted", "message_id": await self._parts.accepting.accept(message, self._keys)})
        except ProblemError as problem:
            problem.message_id = message.message_id
            raise

    async def _text(self, text: str | None) -> None:
        if text is not None:
            await self._send({"type": "websocket.send", "text": text})

    def _hurry(self) -> None:
        """Uvicorn holds every frame back while a reader is slow, the close frame too: let the writer get to it."""
        writable = getattr(getattr(self._send, "__self__", None), "writable", None)
        if isinstance(writable, asyncio.Event):
            writable.set()


def _message_id(body: dict[str, Any]) -> str | None:
    given = body.get("message_id")
    return given if isinstance(given, str) and is_external_id(given) else None


async def close(send: Any, code: int, reason: str) -> None:
    """Close a connection; a reason is cut to what a close frame holds."""
    with contextlib.suppress(OSError):
        await send({"type": "websocket.close", "code": code, "reason": reason[:120]})
