"""The gateway's ASGI app: it checks access, and passes requests to the WebSocket or to Starlette."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pentad.contracts.errors import ErrorCode
from pentad.services.gateway.edge.access import Access
from pentad.services.gateway.edge.browsers import token_in_address
from pentad.services.gateway.edge.problems import ProblemError, busy, missing
from pentad.services.gateway.protocols.openai.errors import openai_refusal
from pentad.services.gateway.tasks.websocket import WebSockets
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.presence.sign_ins import CALLBACK_PATH

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

WEBSOCKET_PATH = "/v1/ws"
_GUARDED = ("v1", "agui", "mcp", "a2a", "openai")
"""First names of the paths that belong to somebody: none is served before it is known who asks."""
_NO_UPGRADE = "this is a WebSocket: a proxy before the gateway must pass the headers Upgrade and Connection on"


class GatewayApp:
    """The ASGI app without CORS."""

    def __init__(
        self,
        access: Access,
        websockets: WebSockets,
        routes: "Sequence[Route]",
        unstarted: Callable[[], str | None],
    ) -> None:
        """``routes``: the routes of REST, and those of health and metrics, which need no API key. ``unstarted`` returns
        the reason why nothing else is served yet, or None."""
        self._access, self._websockets, self._unstarted = access, websockets, unstarted
        self._rest = _rest(routes)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            self._access.check_site(scope["headers"])
            if scope["path"] == WEBSOCKET_PATH:
                raise ProblemError(426, _NO_UPGRADE)
            if is_guarded(scope["path"]):
                if scope["path"] != CALLBACK_PATH:  # a browser comes there from elsewhere, without a key
                    scope["pentad.caller"] = self._access.caller(scope["headers"], (), token_in_address(scope))
                self._check_started()
        except ProblemError as problem:
            await _refusal(problem, scope["path"])(scope, receive, send)
            return
        await self._rest(scope, receive, send)

    async def _websocket(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        try:
            self._access.check_site(scope["headers"])
            if scope["path"] != WEBSOCKET_PATH:
                raise missing("the WebSocket is at /v1/ws")
            self._check_started()
            await self._websockets.serve(scope, receive, send)
        except ProblemError as problem:
            await _deny(problem, receive, send)

    def _check_started(self) -> None:
        if (trouble := self._unstarted()) is not None:
            raise busy(f"the gateway is starting: {trouble}", outage=True)


def is_guarded(path: str) -> bool:
    """Return whether nobody is served at a path before it is known who asks."""
    return path.removeprefix("/").partition("/")[0] in _GUARDED


def _refusal(problem: ProblemError, path: str) -> "Response":
    """Return a refusal in the form of the protocol that is spoken at a path."""
    return openai_refusal(problem) if path.startswith("/openai/") else problem.response()


def _rest(routes: "Sequence[Route]") -> Any:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    rest: Any = Starlette(
        routes=routes,
        exception_handlers={
            ProblemError: _on_problem,
            OutageError: _on_outage,
            DamagedError: _on_damage,
            HTTPException: _on_http,
            ClientDisconnect: _on_gone,
            Exception: _on_bug,
        },
    )
    rest.router.redirect_slashes = False
    return rest


async def _on_problem(request: "Request", error: Exception) -> "Response":
    """Answer with the refusal that a handler raised."""
    assert isinstance(error, ProblemError)
    return _refusal(error, request.url.path)


async def _on_outage(request: "Request", error: Exception) -> "Response":
    return _refusal(busy(f"a store is unavailable: {error}", outage=True), request.url.path)


async def _on_damage(request: "Request", error: Exception) -> "Response":
    return _refusal(ProblemError(410, f"{error}: an operator must look at what is kept"), request.url.path)


async def _on_http(request: "Request", error: Exception) -> "Response":
    status: int = getattr(error, "status_code", 500)
    detail = {404: "there is nothing at this address", 405: f"{request.method} is not for this address"}
    problem = ProblemError(status, detail.get(status, str(getattr(error, "detail", ""))))
    response = _refusal(problem, request.url.path)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _on_gone(request: "Request", error: Exception) -> "Response":
    """Answer a client that left in the middle of its body; nobody reads the answer."""
    return _refusal(ProblemError(400, "the body is not complete"), request.url.path)


async def _on_bug(request: "Request", error: Exception) -> "Response":
    problem = ProblemError(500, "this is our fault: see the gateway's log", ErrorCode.INTERNAL)
    return _refusal(problem, request.url.path)


async def _deny(problem: ProblemError, receive: Any, send: Any) -> None:
    """Refuse a WebSocket handshake with a problem document."""
    headers = [(name.encode(), value.encode()) for name, value in problem.headers().items()]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body()})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            # Uvicorn complains in its log of a denial that returns before the connection is gone: that is the second.
            await receive()
            await receive()
