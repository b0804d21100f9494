"""A server that is a program of this machine: started, spoken to on its standard input and output, and ended."""

import asyncio
import logging
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from pentad.contracts.plain_json import values_in
from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.links import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, TOO_LARGE, LinkEnded
from pentad.services.tool_worker.servers.pace import Pace
from pentad.shared.child_processes import ending
from pentad.shared.clipping import plain
from pentad.shared.settings import server_environment

log = logging.getLogger(__name__)

_END_S = 2.0
"""Seconds that a program has to end after its input was closed, and again after it was asked to."""
_MAX_LINE = 8_192
"""Bytes of a line on standard error that are kept."""
_SHOWN = 300
"""Characters of a line that an error repeats."""
_ID = re.compile(rb'"id"\s{0,4}:\s{0,4}(\d{1,18})')
_NEAR = 200
"""Bytes at both ends of a message where its id stands."""
_TIED = (
    "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);os.execvp(sys.argv[2],sys.argv[2:])"
)
"""Has the kernel kill the program with this process, and becomes the program."""


class ProgramNotFoundError(Exception):
    """There is no such program. The text says what to do."""


class ProgramLink:
    """The link to one run of a program."""

    def __init__(self, server: ToolServer, ended: LinkEnded) -> None:
        self._server, self._ended = server, ended
        self._process: Process | None = None
        self._said: deque[str] = deque(maxlen=3)
        """The last lines on standard error."""
        self._rubbish = ""
        """The last line on standard output that was no message."""
        self._broken = ""
        """Why the link was given up while the program ran."""
        self.has_ended = False

    def about(self) -> str:
        parts = [self._broken]
        if self._process is not None and self._process.returncode is not None:
            parts.append(ending(self._process.returncode))
        return "; ".join(part for part in parts if part)

    def words(self) -> str:
        said = " | ".join(self._said)
        return said or (f"no message: {self._rubbish}" if self._rubbish else "")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """Start the program. Raises ``ProgramNotFoundError``, and ``OSError`` when it cannot be started."""
        process = self._process = await self._start()
        from_server, to_us = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_us, to_server = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, from_server)),
            asyncio.create_task(self._write(process, to_server)),
            asyncio.create_task(self._listen(process)),
        ]
        try:
            yield to_us, from_us
        finally:
            # The end is a task of its own: a cancelled owner must not leave a program behind.
            with anyio.CancelScope(shield=True):
                await asyncio.shield(asyncio.create_task(_end(process, tasks)))
            for stream in (from_server, to_us, from_us, to_server):
                stream.close()

    async def _start(self) -> Process:
        server = self._server
        environment = server_environment(server.env)
        argv = [await asyncio.to_thread(_found, server, environment.get("PATH", os.defpath)), *server.args]
        if sys.platform == "linux":
            argv = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *argv]
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE if log.isEnabledFor(logging.ERROR) else DEVNULL,
            env=environment,
            cwd=server.cwd,
            start_new_session=True,
            limit=MAX_MESSAGE_BYTES,
        )

    async def _read(self, process: Process, messages: Any) -> None:
        """Hand over what the program writes, message by message, until it ends."""
        assert process.stdout is not None
        pace = Pace()
        try:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._broken = f"it sent a message of more than {MAX_MESSAGE_BYTES} bytes"
                    break
                if not line:
                    break
                await pace.keep(len(line))
                if (message := self._message(line)) is not None:
                    await messages.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # nobody listens any more
        finally:
            self.has_ended = True
            messages.close()
            self._ended()

    def _message(self, line: bytes) -> SessionMessage | None:
        """Return the message that a line is; None for one that is none."""
        if values_in(line, MAX_MESSAGE_VALUES) > MAX_MESSAGE_VALUES:
            found = _ID.search(line[:_NEAR]) or _ID.search(line[-_NEAR:])
            if found is None:
                return None
            text = f"the answer has more than {MAX_MESSAGE_VALUES:,} values"
            return SessionMessage(
                JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=ErrorData(code=TOO_LARGE, message=text))
            )
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            if line.strip():
                self._rubbish = plain(line[:_MAX_LINE].decode(errors="replace"), _SHOWN)
            return None

    async def _write(self, process: Process, messages: Any) -> None:
        assert process.stdin is not None
        async for each in messages:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            with suppress(ConnectionError):  # it has ended: the reader tells
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _listen(self, process: Process) -> None:
        """Keep the last lines of standard error, for whoever must find out why a server fails."""
        if process.stderr is None:
            return
        pace, rest = Pace(), b""
        while piece := await process.stderr.read(_MAX_LINE):
            await pace.keep(len(piece))
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-_MAX_LINE:]
            for line in lines:
                if text := plain(line.decode(errors="replace"), _SHOWN):
                    self._said.append(text)


def _found(server: ToolServer, path: str) -> str:
    """Return the whole path of a server's program. Raises ``ProgramNotFoundError``."""
    assert server.command is not None
    folder = server.cwd
    if folder is not None and not os.path.isdir(folder):
        raise ProgramNotFoundError(f"its folder {plain(folder, _SHOWN)} is not there: correct cwd")
    command = os.path.expanduser(server.command)
    if os.sep in command and not os.path.isabs(command) and folder is not None:
        command = os.path.join(folder, command)
    found = shutil.which(command, path=path)
    if found is None:
        raise ProgramNotFoundError(
            f"there is no program {plain(server.command, _SHOWN)} where the tool-worker runs: install it, or give its "
            "whole path"
        )
    return found


async def _end(process: Process, tasks: list["asyncio.Task[None]"]) -> None:
    """Close a program's input, ask it to end, and kill it with all that it has started, each after a while."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _ended_within(process, _END_S):
        _signal(process, signal.SIGTERM)
        if not await _ended_within(process, _END_S):
            _signal(process, signal.SIGKILL)
            await _ended_within(process, _END_S)
    _signal(process, signal.SIGKILL)  # what it has started and left behind
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _ended_within(process: Process, seconds: float) -> bool:
    """Return whether a program ends in time. Its pipes are not waited for: what it has started may hold them."""
    limit = asyncio.get_running_loop().time() + seconds
    while process.returncode is None and asyncio.get_running_loop().time() < limit:
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
