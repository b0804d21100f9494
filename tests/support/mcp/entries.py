"""Entries of the servers for tests, and the HTTP ones as running processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pentad.contracts.tool_servers import ToolServer
from tests.support.processes.up import ROOT
from tests.support.waiting import in_time


def program(name: str, folder: Path, **more: Any) -> ToolServer:
    """Return the entry of the SDK's server, as a program."""
    args = ["-m", "tests.support.mcp.server", "stdio", "--folder", str(folder)]
    return ToolServer(name=name, command=sys.executable, args=tuple(args), cwd=str(ROOT), **more)


def raw(name: str, kind: str, *files: Path, **more: Any) -> ToolServer:
    """Return the entry of a server that no SDK has made."""
    args = ("-m", "tests.support.mcp.raw_server", kind, *map(str, files))
    return ToolServer(name=name, command=sys.executable, args=args, cwd=str(ROOT), **more)


def file_entry(server: ToolServer) -> dict[str, Any]:
    """Return an entry as a file has it."""
    return server.model_dump(
        mode="json", include={"command", "args", "cwd", "env", "url", "headers", "oauth"}, exclude_defaults=True
    )


class HttpServerProcess:
    """An HTTP server that can be killed, and started again at its port."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}/{'sse' if self._kind == 'sse' else 'mcp'}"

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        command = [sys.executable, "-m", "tests.support.mcp.server", self._kind]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            *("--folder", str(self._folder), "--port", str(self.port)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout is not None
        async with in_time():
            self.port = int(await self._process.stdout.readline())

    async def kill(self) -> None:
        """Kill the process."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def http_process(kind: str, folder: Path) -> AsyncIterator[HttpServerProcess]:
    """Run a server: ``http``, ``old-http`` or ``sse``."""
    process = HttpServerProcess(kind, folder)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()
