"""The gateway's ASGI app: who may come in, the WebSocket, and Starlette for the rest."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from pentad.contracts.errors import ErrorCode
from pentad.services.gateway.browsers import caller_of, open_to
from pentad.services.gateway.edge.access import chosen_protocol
from pentad.services.gateway.edge.problems import ProblemError, busy, missing
from pentad.services.gateway.parts import Parts, new_session_id
from pentad.services.gateway.rest import on_problem, routes
from pentad.services.gateway.websocket import BAD_KEY, REFUSED, WebSocketSession, close
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.events.subscription import BadCursorError, parse_cursor
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

log = logging.getLogger(__name__)

WEBSOCKET_PATH = "/v1/ws"
_NO_UPGRADE = "this is a WebSocket: a proxy before the gateway must pass the headers Upgrade and Connection on"


def make_app(parts: Parts, health: "list[Route]", unstarted: Callable[[], str | None]) -> Any:
    """The ASGI app. ``health``: the routes of health and metrics, which need no API key. ``unstarted``: why nothing
    else is served yet; None once it is."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    rest: Any = Starlette(
        routes=[*health, *routes(parts)],
        exception_handlers={
            ProblemError: on_problem,
            OutageError: _on_outage,
            DamagedError: _on_damage,
            HTTPException: _on_http,
            ClientDisconnect: _on_gone,
            Exception: _on_bug,
        },
    )
    rest.router.redirect_slashes = False

    async def served(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await _websocket(parts, unstarted(), scope, receive, send)
        elif scope["type"] == "http":
            await _http(parts, rest, unstarted(), scope, receive, send)

    return open_to(served, parts.origins)


async def _on_outage(request: "Request", error: Exception) -> "Response":
    return busy(f"a store is unavailable: {error}", outage=True).response()


async def _on_damage(request: "Request", error: Exception) -> "Response":
    return ProblemError(410, f"{error}: an operator must look at what is kept").response()


async def _on_http(request: "Request", error: Exception) -> "Response":
    status: int = getattr(error, "status_code", 500)
    detail = {404: "there is nothing at this address", 405: f"{request.method} is not for this address"}
    response = ProblemError(status, detail.get(status, str(getattr(error, "detail", "")))).response()
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _on_gone(request: "Request", error: Exception) -> "Response":
    """The client left in the middle of its body: nobody reads this."""
    return ProblemError(400, "the body is not complete").response()


async def _on_bug(request: "Request", error: Exception) -> "Response":
    return ProblemError(500, "this is our fault: see the gateway's log", ErrorCode.INTERNAL).response()


async def _http(parts: Parts, rest: Any, unstarted: str | None, scope: Any, receive: Any, send: Any) -> None:
    try:
        parts.access.check_site(scope["headers"])
        if scope["path"] == WEBSOCKET_PATH:
            raise ProblemError(426, _NO_UPGRADE)
        if scope["path"].startswith("/v1/"):
            scope["pentad.caller"] = caller_of(parts, scope)
            _check_started(unstarted)
    except ProblemError as problem:
        await problem.response()(scope, receive, send)
        return
    await rest(scope, receive, send)


def _check_started(unstarted: str | None) -> None:
    if unstarted is not None:
        raise busy(f"the gateway is starting: {unstarted}", outage=True)


async def _websocket(parts: Parts, unstarted: str | None, scope: Any, receive: Any, send: Any) -> None:
    await receive()
    try:
        parts.access.check_site(scope["headers"])
        if scope["path"] != WEBSOCKET_PATH:
            raise missing("the WebSocket is at /v1/ws")
        _check_started(unstarted)
        await _open(parts, scope, receive, send)
    except ProblemError as problem:
        await _deny(problem, receive, send)


async def _deny(problem: ProblemError, receive: Any, send: Any) -> None:
    """Answer a handshake with a problem document instead."""
    headers = [(name.encode(), value.encode()) for name, value in problem.headers().items()]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body()})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            # Uvicorn complains in its log of a denial that returns before the connection is gone: that is the second.
            await receive()
            await receive()


async def _open(parts: Parts, scope: Any, receive: Any, send: Any) -> None:
    """Accept. A bad key, session or cursor is told over the open connection: a browser cannot read a refused one."""
    accept = {"type": "websocket.accept", "subprotocol": chosen_protocol(scope["subprotocols"])}
    try:
        tenant = parts.access.tenant(scope["headers"], scope["subprotocols"])
    except ProblemError as problem:
        await send(accept)
        await close(send, BAD_KEY, problem.detail)
        return
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    session, after = query.get("session_id", [""])[0] or new_session_id(), query.get("after", [""])[0]
    try:
        keys, cursor = parts.session(tenant, session), parse_cursor(after) if after else None
    except (ProblemError, BadCursorError) as error:
        await send(accept)
        refusal = parts.error(SessionKeys(0, tenant, ""), ErrorCode.BAD_MESSAGE, str(error))
        await send({"type": "websocket.send", "text": refusal})
        await close(send, REFUSED, str(error))
        return
    stream = await parts.streams.open(keys, cursor)
    try:
        await send(accept)
        await WebSocketSession(parts, keys, stream, receive, send).run()
    finally:
        stream.close()
