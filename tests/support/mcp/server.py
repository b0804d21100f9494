"""An MCP server made with the official SDK, as a process: over stdio, or over HTTP on a port that it prints.

python -m tests.support.mcp.server stdio|http|old-http|sse [--folder F]

``old-http`` does not know the newer protocol's first request, as servers of before 2026. What happens in calls is
written to files in the folder, and calls wait there for files.
"""

import argparse
import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, ToolAnnotations
from pydantic_core import from_json, to_json

READ_ONLY, IDEMPOTENT = ToolAnnotations(read_only_hint=True), ToolAnnotations(idempotent_hint=True)


def make(folder: Path) -> MCPServer:
    """Return the server with its tools."""
    server: MCPServer = MCPServer("for-tests", log_level="CRITICAL")

    def note(word: str) -> None:
        with (folder / "ledger").open("a") as file:
            file.write(word + "\n")

    @server.tool(annotations=READ_ONLY)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        note("add")
        return a + b

    @server.tool(annotations=READ_ONLY)
    async def count(ctx: Context[Any], to: int) -> str:
        """Count, and say how far it is."""
        for number in range(1, to + 1):
            await ctx.report_progress(number, to, f"at {number}")
        return f"counted to {to}"

    @server.tool(annotations=READ_ONLY)
    async def hold(name: str) -> str:
        """Wait until a file is there."""
        return await held(name)

    @server.tool(annotations=IDEMPOTENT)
    async def hold_again(name: str) -> str:
        """Wait until a file is there; again, if need be."""
        return await held(name)

    @server.tool()
    async def hold_once(name: str) -> str:
        """Wait until a file is there; it may have an effect."""
        return await held(name)

    async def held(name: str) -> str:
        note(f"begun {name} {os.getpid()}")
        try:
            while not (folder / name).exists():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            note(f"cancelled {name}")
            raise
        return f"{name} is there"

    @server.tool()
    def fail(text: str) -> str:
        """Fail with a text."""
        raise ValueError(text)

    @server.tool()
    def environment() -> dict[str, str]:
        """Return the variables that this process sees."""
        return dict(os.environ)

    @server.tool()
    def is_token(ctx: Context[Any], digest: str) -> str:
        """Say the first letter of the caller's token if it has so many characters."""
        token = ((ctx.headers or {}).get("authorization", "") or os.environ.get("TOKEN", "")).removeprefix("Bearer ")
        return f"yes {token[0]}" if token and str(len(token)) == digest else "no"

    @server.tool()
    def who(ctx: Context[Any]) -> str:
        """Say with which token the caller has come."""
        headers = ctx.headers
        return (headers or {}).get("authorization", "") or os.environ.get("TOKEN", "nobody")

    @server.tool(structured_output=False)
    def picture() -> Any:
        """Return a picture and a word."""
        return ["here it is", Image(data=b"\x89PNG" + bytes(96), format="png")]

    @server.tool()
    async def grow(ctx: Context[Any], name: str) -> str:
        """Have one more tool from now on."""
        server.add_tool(lambda: f"{name} ran", name=name, description="A tool that came later")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    @server.tool()
    def book(ctx: Context[Any], city: str) -> str | InputRequiredResult:
        """Book a trip; a person must say for how many."""
        asked = ctx.input_responses
        if not asked:
            form = {"type": "object", "properties": {"seats": {"type": "integer", "minimum": 1}}, "required": ["seats"]}
            words = folder / "question"
            question = words.read_text() if words.exists() else "How many seats?"
            wish = ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=form))
            return InputRequiredResult(input_requests={"seats": wish}, request_state=f"to {city}")
        answer = asked["seats"]
        assert isinstance(answer, ElicitResult)
        note(f"book {ctx.request_state} {answer.action} {answer.content}")
        return f"{answer.content['seats']} seats {ctx.request_state}" if answer.content else "not booked"

    @server.tool()
    def die() -> str:
        """End the process in the middle of the call."""
        os._exit(3)

    return server


def main() -> None:
    """Serve until the input closes, or for ever."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["stdio", "http", "old-http", "sse"])
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    server = make(args.folder)
    if args.kind == "stdio":
        server.run("stdio")
        return
    app: Any = server.sse_app() if args.kind == "sse" else server.streamable_http_app()
    if args.kind == "old-http":
        app = _without_discovery(app)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", args.port))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])


def _without_discovery(app: Any) -> Any:
    async def old(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        message = await receive()
        body = message.get("body", b"")
        asked = from_json(body) if body else {}
        if asked.get("method") == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            text = to_json({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": text})
            return
        given = iter([message])

        async def again() -> Any:
            return next(given, None) or await receive()

        await app(scope, again, send)

    return old


if __name__ == "__main__":
    main()
