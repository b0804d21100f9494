"""The bindings of A2A, JSON-RPC and REST, as its SDK has them, within the gateway's bounds.

The SDK reads and writes the protocol's forms. Bodies are bounded before it sees them, and its streams are sent as all
others here: with signs of life, until the client leaves, its token ends, or the gateway stops.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers.response_helpers import agent_card_to_dict, build_error_response
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, InvalidRequestError, MethodNotFoundError
from sse_starlette.event import ensure_bytes
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from pentad.contracts.graphs import Runnable
from pentad.contracts.plain_json import values_in
from pentad.services.gateway.domain.frames import UnreadableError, read_object
from pentad.services.gateway.edge.http import read_bytes
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.protocols.a2a.a2a_call import CALL_FIELD, A2aCall, error_of
from pentad.services.gateway.protocols.a2a.a2a_parts import A2aParts
from pentad.services.gateway.protocols.a2a.agent_card import card_of
from pentad.services.gateway.protocols.a2a.pushed_updates import PushedUpdates
from pentad.services.gateway.protocols.a2a.request_handler import A2aRequestHandler
from pentad.services.gateway.protocols.a2a.task_reader import TaskReader
from pentad.services.gateway.tasks.event_stream import ALIVE, HEARTBEAT_S, EventStream

if TYPE_CHECKING:
    from starlette.types import Message

_MAX_VALUES = 2_000
"""JSON values that a body may have: the SDK takes about 15 microseconds for each, in which nobody else is served."""
_HTTP_STATUSES = frozenset({401, 403, 413, 415, 429, 503})
"""Statuses of refusals that are also those of the response, whatever the binding: clients and proxies act on them."""
_SCOPE_FIELD = "pentad.a2a"


class _Contexts(ServerCallContextBuilder):
    """Gives the SDK's context of a call what our handler needs."""

    def build(self, request: Request) -> ServerCallContext:
        return ServerCallContext(state={"headers": dict(request.headers), CALL_FIELD: request.scope[_SCOPE_FIELD]})


class A2aDispatch:
    """Serves the requests of both bindings."""

    def __init__(self, parts: A2aParts) -> None:
        logging.getLogger("a2a").setLevel(logging.CRITICAL)  # it would log what clients send, and every refusal
        handler, contexts = A2aRequestHandler(parts), _Contexts()
        self._closing = parts.streams.closing
        self.pushed = PushedUpdates(parts.queries, TaskReader(parts.queries, parts.approvals))
        """Push notifications are made here."""
        self._rpc = JsonRpcDispatcher(handler, context_builder=contexts, enable_v0_3_compat=True)
        routes = create_rest_routes(handler, context_builder=contexts, path_prefix="/a2a/rest")
        self._rest = [route for route in routes if isinstance(route, Route)]

    async def rpc(self, request: Request, call: A2aCall) -> Any:
        """Return the response to a request in JSON-RPC."""
        try:
            body = await _checked_body(request)
        except ProblemError as problem:
            return JSONResponse(build_error_response(None, error_of(problem)), problem.status)
        except UnreadableError as error:
            return JSONResponse(build_error_response(None, JSONParseError(message=str(error))))
        return self._sent(await self._rpc.handle_requests(_again(request, body, call)), call)

    async def rest(self, request: Request, call: A2aCall) -> Any:
        """Return the response to a request in REST."""
        body = b""
        try:
            if request.method == "POST":
                body = await read_bytes(request)
                if body.strip():
                    check_body(body)
        except ProblemError as problem:
            return JSONResponse(build_rest_error_payload(error_of(problem)), problem.status)
        except UnreadableError as error:
            return _refused(InvalidRequestError(str(error)))
        for route in self._rest:
            match, child = route.matches(request.scope)
            if match is Match.FULL:
                request.scope["path_params"] = child["path_params"]
                return self._sent(await route.endpoint(_again(request, body, call)), call)
        return _refused(MethodNotFoundError("A2A's HTTP+JSON binding has no such address, or not with this method"))

    def _sent(self, response: Response, call: A2aCall) -> Any:
        """Return a response of the SDK as it is sent."""
        if hasattr(response, "body_iterator"):
            return EventStream(self._closing, SdkBlocks(response.body_iterator, call), call.caller.left_s)
        problem = call.problem
        if problem is not None and problem.status in _HTTP_STATUSES:
            response.status_code = problem.status
            if "retry-after" in problem.headers():
                response.headers["retry-after"] = problem.headers()["retry-after"]
        response.headers["cache-control"] = "no-store"
        return response


class SdkBlocks:
    """The events of a stream of the SDK."""

    def __init__(self, events: AsyncIterator[Any], call: A2aCall) -> None:
        self._events, self._call = events, call

    def close(self) -> None:
        """Close the subscription. Safe to call twice."""
        if self._call.stream is not None:
            self._call.stream.close()

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the events, and signs of life while there are none."""
        coming: asyncio.Task[Any] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(self._events, None))
                done, _ = await asyncio.wait({coming}, timeout=HEARTBEAT_S)
                if not done:
                    yield ALIVE
                    continue
                event, coming = coming.result(), None
                if event is None:
                    return
                yield ensure_bytes(event, "\n")
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
            await self._events.aclose()  # type: ignore[attr-defined]


def card_document(runnables: Mapping[str, Runnable], address: str, version: str, *, needs_key: bool) -> dict[str, Any]:
    """Return the agent card as JSON, readable for clients of A2A 0.3, too."""
    return agent_card_to_dict(card_of(runnables, address, version, needs_key=needs_key))


async def _checked_body(request: Request) -> bytes:
    body = await read_bytes(request)
    check_body(body)
    return body


def check_body(body: bytes) -> None:
    """Refuse what is no JSON object of few values. Raises ``UnreadableError``, and ``ProblemError`` (413)."""
    if values_in(body, _MAX_VALUES) > _MAX_VALUES:
        raise ProblemError(413, f"a body may have {_MAX_VALUES:,} JSON values: send large data as a file")
    read_object(body)


def _again(request: Request, body: bytes, call: A2aCall) -> Request:
    """Return the request with its body, which was read already."""
    request.scope[_SCOPE_FIELD] = call

    async def receive() -> "Message":
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def _refused(error: A2AError) -> Response:
    payload = build_rest_error_payload(error)
    return JSONResponse(payload, payload["error"]["code"])
