"""The route of the MCP server. The SDK is imported when the first client comes, beside the event loop."""

import asyncio
from typing import TYPE_CHECKING, Any

from pentad.services.gateway.edge.http import object_of_body, read_bytes
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.edge.schemas import ANY_OBJECT, TEXT, gives, json_body
from pentad.services.gateway.protocols.mcp_server.file_resources import FileResources
from pentad.services.gateway.protocols.mcp_server.memory_tools import MemoryTools
from pentad.services.gateway.protocols.mcp_server.session_tools import SessionTools
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.service.process import settle

if TYPE_CHECKING:
    from starlette.requests import Request

    from pentad.services.gateway.protocols.mcp_server.served import McpServed

_NOT_INSTALLED = "the MCP server needs the package mcp: install pentad[mcp] where the gateway runs"
_ANSWER = gives("the answer of JSON-RPC, as JSON or as server-sent events with progress before it", ANY_OBJECT)


class LateMcpServer:
    """The MCP server, which starts with its first request."""

    def __init__(
        self, sessions: SessionTools, memory: MemoryTools, files: FileResources, book: InstructionBook
    ) -> None:
        self._sessions, self._memory, self._files, self._book = sessions, memory, files, book
        self._served: McpServed | None = None
        self._starting = asyncio.Lock()

    async def started(self) -> "McpServed":
        """Return the server, started. Raises ``ProblemError`` (501) where the SDK is not installed."""
        async with self._starting:
            if self._served is None:
                self._served = await self._start()
        return self._served

    async def _start(self) -> "McpServed":
        try:
            made = await asyncio.to_thread(_server_class)
        except ModuleNotFoundError as error:
            raise ProblemError(501, _NOT_INSTALLED) from error
        served = made(self._sessions, self._memory, self._files, self._book)
        await served.start()
        return served

    async def aclose(self) -> None:
        """Stop the server, if a client has started it."""
        if self._served is not None:
            await self._served.aclose()


class McpRoutes:
    """The route of the MCP server."""

    def __init__(self, server: LateMcpServer) -> None:
        self._server = server

    @operation(
        "POST",
        "/mcp",
        "The MCP server, by streamable HTTP without sessions: tools that run instructions and graphs, talk in sessions "
        "and read memory, and files of sessions as resources. Of 2026-07-28, and of the versions before",
        body=json_body({**ANY_OBJECT, "description": "one message of JSON-RPC"}),
        problems=(400, 413, 415, 501),
        right="read",
        _200=_ANSWER,
        _404=gives("an error of JSON-RPC: there is no such method", ANY_OBJECT),
        _406=gives("`Accept` must name application/json and text/event-stream", ANY_OBJECT),
        _202=gives("a notification was taken", TEXT),
    )
    async def serve(self, request: "Request") -> "McpExchange":
        """Return what answers the request. Its body is read here, so that the SDK gets none that is out of bounds."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ProblemError(415, "a message of JSON-RPC is sent with `Content-Type: application/json`")
        body = await read_bytes(request)
        object_of_body(body)
        return McpExchange(await self._server.started(), body)


class McpExchange:
    """The response to one message: an ASGI app that hands the message to the server."""

    def __init__(self, served: "McpServed", body: bytes) -> None:
        self._served, self._body = served, body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pending = [{"type": "http.request", "body": self._body, "more_body": False}]

        async def received() -> Any:
            return pending.pop() if pending else await receive()

        # The SDK compares headers with the message, and the HTTP parser leaves the spaces behind their values.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._served({**scope, "headers": headers}, received, send)


def _server_class() -> "type[McpServed]":
    """Return the class of the server; what its import leaves is looked at by no later collection of garbage."""
    from pentad.services.gateway.protocols.mcp_server.served import McpServed

    settle()
    return McpServed
