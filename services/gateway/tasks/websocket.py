"""`/v1/ws`: a session's events and a client's commands over one WebSocket, on the bare ASGI interface.

A writer sends the events, and a reader answers commands as they come. Nothing is kept for a client that has left.
"""

import asyncio
import contextlib
import logging
from typing import Any
from urllib.parse import parse_qs

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_external_id, is_identifier
from pentad.services.gateway.domain.approval import read_decision
from pentad.services.gateway.domain.client_result import read_client_result
from pentad.services.gateway.domain.frames import UnreadableError, command_of, control_of, read_message, read_object
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.edge.access import Access, Caller, chosen_protocol
from pentad.services.gateway.edge.client_events import as_text, error_event
from pentad.services.gateway.edge.http import session_keys
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.approvals import Approvals, decider
from pentad.services.gateway.tasks.client_results import ClientResults
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.message_intake import MessageIntake, new_message_id, new_session_id
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream, TurnStreams
from pentad.shared import metrics
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.subscription import BadCursorError, SlowReaderError, parse_cursor
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys

log = logging.getLogger(__name__)

_CALL = ("task_id", "tool_call_id")
BAD_KEY, TOO_SLOW, REFUSED, BROKEN = 4401, 1013, 1008, 1011


@immutable
class Commands:
    """The parts of the gateway that carry out clients' commands."""

    intake: MessageIntake
    control: Control
    moves: MessageMoves
    approvals: Approvals
    results: ClientResults


class WebSockets:
    """Opens WebSockets, each of which follows one session."""

    def __init__(self, access: Access, streams: TurnStreams, commands: Commands, shards: int) -> None:
        self._access, self._streams, self._commands, self._shards = access, streams, commands, shards
        self.connections = 0
        """WebSockets that are open."""

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Accept a handshake and serve the session until the connection closes.

        Errors about the key, session or cursor are sent over the open connection: browsers cannot read a refusal.
        """
        accept = {"type": "websocket.accept", "subprotocol": chosen_protocol(scope["subprotocols"])}
        try:
            caller = self._access.caller(scope["headers"], scope["subprotocols"])
            tenant = caller.tenant
            if tenant is None:
                raise ProblemError(401, "the admin key is no tenant's: use one of the gateway's API keys")
        except ProblemError as problem:
            await send(accept)
            await _close(send, BAD_KEY, problem.detail)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        named, after = query.get("session_id", [""])[0], query.get("after", [""])[0]
        try:
            keys = session_keys(tenant, _session_for(caller, named), self._shards)
            cursor = parse_cursor(after) if after else None
        except (ProblemError, BadCursorError) as error:
            await send(accept)
            code = error.code if isinstance(error, ProblemError) and error.code else ErrorCode.BAD_MESSAGE
            await send({"type": "websocket.send", "text": error_event(SessionKeys(0, tenant, ""), code, str(error))})
            await _close(send, REFUSED, str(error))
            return
        stream = await self._streams.open(keys, cursor)
        self.connections += 1
        try:
            await send(accept)
            await WebSocketSession(self._commands, caller, keys, stream, receive, send).run()
        finally:
            self.connections -= 1
            stream.close()


class WebSocketSession:
    """One open WebSocket connection, after its handshake."""

    def __init__(
        self, commands: Commands, caller: Caller, keys: SessionKeys, stream: TurnStream, receive: Any, send: Any
    ) -> None:
        self._commands, self._caller, self._keys, self._stream = commands, caller, keys, stream
        self._receive, self._send = receive, send

    async def run(self) -> None:
        """Serve the connection until either side closes it, or the token that has opened it ends."""
        metrics.websockets.labels().inc()
        self._stream.subscription.on_overflow = self._hurry
        cursor = self._stream.position.decode()
        writer = asyncio.create_task(self._write(cursor))
        end = asyncio.timeout(self._caller.left_s)
        try:
            async with end:
                await self._read()
        except OSError:  # uvicorn's "client disconnected", or the end
            pass
        finally:
            metrics.websockets.labels().dec()
            self._stream.close()
            await cancel_all([writer])
        if end.expired():  # also for a client that leaves unread what it is sent, or never pauses
            await _close(self._send, BAD_KEY, "the token has ended: come back with another, and your cursor")

    async def _write(self, cursor: str) -> None:
        try:
            await self._text(as_text({"type": "session", "session_id": self._keys.session, "cursor": cursor}))
            while await self._write_some():
                pass
        except OSError:  # uvicorn's "client disconnected"
            pass
        except Exception:
            log.exception("the events of a session cannot be sent")
            await _close(self._send, BROKEN, "internal error")

    async def _write_some(self) -> bool:
        """Send the next events; return False once the connection is closed."""
        subscription, send = self._stream.subscription, self._send
        try:
            read = await self._stream.read()
        except SlowReaderError as error:
            await _close(self._send, TOO_SLOW, str(error))
            return False
        if isinstance(read, Missed):
            await self._text(error_event(self._keys, ErrorCode.CURSOR_EXPIRED, read.why))
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
        """Return the answer to a client's frame, if there is one."""
        body: dict[str, Any] = {}
        try:
            body = read_object(raw)
            return await self._execute(command_of(body), body)
        except UnreadableError as error:
            return error_event(self._keys, ErrorCode.BAD_MESSAGE, str(error), message_id=_message_id(body))
        except ProblemError as error:
            code = error.code or ErrorCode.INTERNAL
            more = {"message_id": error.message_id or _message_id(body), "retry_after": error.retry_after}
            return error_event(self._keys, code, error.detail, in_doubt=error.in_doubt, **more)
        except Exception:
            log.exception("a client's frame cannot be answered")
            return error_event(self._keys, ErrorCode.INTERNAL, "this is our fault: see the gateway's log")

    async def _execute(self, command: str, body: dict[str, Any]) -> str | None:
        if command == "ping":
            return '{"type":"pong"}'
        if command == "approve":
            await self._decide(body)
            return None
        self._caller.check("send")
        if command == "result":
            await self._accept_result(body)
            return None
        if (control := control_of(command)) is not None:
            task = body.get("task_id")
            if not isinstance(task, str) or not is_identifier(task):
                raise UnreadableError("task_id: a task's id is expected")
            await self._commands.control.ask(control, self._keys.tenant, task, self._keys.session)
            return None
        if command == "move":
            asked, keys = read_move(body), self._keys
            task = await self._commands.moves.task_with(keys, asked.message_id)
            await self._commands.moves.move(keys.tenant, task, asked, keys.session)
            return None
        given = {name: value for name, value in body.items() if name != "type"}
        if self._caller.grant is not None:
            given = self._caller.grant.message(given)
        message = read_message(given, self._keys.tenant, self._keys.session, new_message_id())
        try:
            if given.get("message_id") is not None:
                await self._commands.intake.is_repeat(message, self._keys)
            return as_text({"type": "accepted", "message_id": await self._commands.intake.accept(message, self._keys)})
        except ProblemError as problem:
            problem.message_id = message.message_id
            raise

    async def _decide(self, body: dict[str, Any]) -> None:
        """Take a decision about a call; the session's ``approval`` event tells it to all of its clients."""
        self._caller.check("approve")
        task, call = _named_call(body)
        asked = read_decision(_beside_call(body))
        who, keys = decider(self._caller), self._keys
        await self._commands.approvals.decide(keys.tenant, task, call, asked, who, keys.session)

    async def _accept_result(self, body: dict[str, Any]) -> None:
        """Take the result of a client's tool; the session's ``tool_result`` event tells it to all of its clients."""
        task, call = _named_call(body)
        sent, keys = read_client_result(_beside_call(body)), self._keys
        await self._commands.results.accept(keys.tenant, task, call, sent, keys.session)

    async def _text(self, text: str | None) -> None:
        if text is not None:
            await self._send({"type": "websocket.send", "text": text})

    def _hurry(self) -> None:
        """Let the writer send its close frame: Uvicorn holds all frames back while a client reads slowly."""
        writable = getattr(getattr(self._send, "__self__", None), "writable", None)
        if isinstance(writable, asyncio.Event):
            writable.set()


def _session_for(caller: Caller, named: str) -> str:
    """Return the session that a connection follows: the named one, else the token's, else a new one.

    Raises ``ProblemError`` (403) for another session than the token's, and for a token that may not read.
    """
    if caller.grant is None:
        return named or new_session_id()
    caller.check("read")
    caller.grant.check_session(named or caller.grant.session)
    return caller.grant.session


def _named_call(body: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of the task and the call that a frame names. Raises ``UnreadableError``."""
    task, call = (body.get(name) for name in _CALL)
    if not (isinstance(task, str) and is_identifier(task) and isinstance(call, str) and is_identifier(call)):
        raise UnreadableError("task_id, tool_call_id: the ids of a task and of its call are expected")
    return task, call


def _beside_call(body: dict[str, Any]) -> dict[str, Any]:
    """Return what a frame says beside its type and its call."""
    return {name: value for name, value in body.items() if name not in ("type", *_CALL)}


def _message_id(body: dict[str, Any]) -> str | None:
    given = body.get("message_id")
    return given if isinstance(given, str) and is_external_id(given) else None


async def _close(send: Any, code: int, reason: str) -> None:
    """Close a connection; the reason is cut to the length that a close frame allows."""
    with contextlib.suppress(OSError):
        await send({"type": "websocket.close", "code": code, "reason": reason[:120]})
