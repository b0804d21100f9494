"""An MCP server over stdio with one tool that takes its time and may run again."""

import asyncio

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

SERVER: MCPServer = MCPServer("chaos", log_level="CRITICAL")


@SERVER.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def slow(ms: int, tag: str) -> str:
    """Take some time."""
    await asyncio.sleep(ms / 1000)
    return f"served {tag}"


if __name__ == "__main__":
    SERVER.run("stdio")
