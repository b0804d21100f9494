"""The connection to servers as the client that the official conformance suite tests: docs/mcp.md says how it is run.

python -m tests.support.mcp.conformance URL

It connects, and calls each tool that the suite's server has.
"""

import asyncio
import sys

from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.connection import ServerConnection

_ARGUMENTS: dict[str, dict[str, object]] = {"add_numbers": {"a": 5, "b": 3}}


async def connect(url: str) -> bool:
    """Connect to a server and call its tools; returns whether all went well."""
    connection = ServerConnection(ToolServer(name="suite", url=url), lambda: None)
    connection.start()
    try:
        await connection.tried()
        outcomes = [
            await connection.call(tool.name, _ARGUMENTS.get(tool.name, {}), 20, lambda _, __: None)
            for tool in connection.listed
        ]
    finally:
        await connection.stop()
    for outcome in outcomes:
        print(outcome)
    return connection.condition == "ready" and all(outcome.ok for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(connect(sys.argv[1])) else 1)
