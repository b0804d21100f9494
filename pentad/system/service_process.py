"""A child process that runs one service, seen from its parent: started, given its settings, listened to, ended.

The parent sends two lines, the environment and the `Order`, neither of which stands where another process could read
it; then requests, each a line of JSON. The child (`service_child`) answers with lines of JSON: that it has started, its
checks, notes and outages, its log, what it has counted.
"""

import asyncio
import json
import logging
import os
import pickle
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pentad.contracts.streams import Service
from pentad.shared.child_processes import ending, start_connected
from pentad.shared.errors import PentadError, SettingsError
from pentad.shared.metrics import CountsOfProcess
from pentad.shared.settings import Settings, service_environment, tool_environment
from pentad.shared.telemetry import log_passed, passing_log

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 8 << 20
"""Bytes of a line in either direction."""
_MODULE = "pentad.system.service_child"
_STDERR = 2
_EXIT_S = 6.0
"""Seconds that a process may take to end after it has closed the connection."""
_COUNTS_S = 1.0
"""Seconds that a process may take to say what it has counted; what it said last is shown then."""
_TICK_S = 1.0
_STUCK_TICKS = 60
"""Ticks without a line, of which one is due each second, after which a process is killed: the next may do better."""


@dataclass(frozen=True, slots=True)
class ProcessLaunch:
    """The only command-line argument of a child, as JSON."""

    service: Service
    module: str
    """Name of the module with the composition root, ``build``."""
    socket_fd: int
    life_fd: int
    parent_pid: int
    directory: str
    """The parent's working directory."""
    path: list[str]
    """The parent's ``sys.path``, so that both import the same."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ProcessLaunch":
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Order:
    """The order to run a service, with all that its process needs for that."""

    settings: Settings
    log_level: int
    """The least level of records that the parent's log takes."""
    log_payloads: bool


def packed_line(value: Any) -> bytes:
    """Return a value as a line that only a child of ours reads."""
    return b64encode(pickle.dumps(value)) + b"\n"


def unpacked_line(line: bytes) -> Any:
    """Return the value of a line that our parent has sent."""
    return pickle.loads(b64decode(line))


class ServiceProcess:
    """One child process, from its launch to its end. It belongs to the loop that launched it."""

    def __init__(
        self,
        service: Service,
        process: subprocess.Popen[bytes],
        life_fd: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.checks: Mapping[str, str | None] | None = None
        """The service's checks as it told them last; None: it has not told any yet."""
        self.notes: Mapping[str, str] = {}
        self.outages: Sequence[str] = ()
        """Names of failed checks that the service starts without."""
        self.silent_ticks = 0
        """Seconds, about, since its last line, of those in which our own loop has turned."""
        self.gone = asyncio.Event()
        """Set when the process is reaped."""
        self.exit_code = 0
        """The exit code, once it is gone."""
        self._service, self._process, self._life_fd = service, process, life_fd
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._is_ordered = False
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._counts = CountsOfProcess()
        self._counting: asyncio.Future[None] | None = None
        self._following = asyncio.create_task(self._follow(), name=f"process of {service}")

    @classmethod
    async def launch(cls, service: Service, module: str) -> "ServiceProcess":
        """Start a process, which imports the service and waits for its order.

        Call it in the thread of the event loop: when that thread ends, so does the child. Raises ``PentadError`` when
        the system has no room for another process.
        """
        try:
            about = (os.getpid(), os.getcwd(), list(sys.path))
            process, ours, life = start_connected(
                lambda end, life: _start(ProcessLaunch(service, module, end, life, *about))
            )
        except OSError as error:
            raise PentadError(f"the process of the {service} cannot be started: {error}") from None
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
        except BaseException:
            process.kill()
            process.wait()
            ours.close()
            os.close(life)
            raise
        writer.write(packed_line(service_environment()))
        return cls(service, process, life, reader, writer)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    async def serve(self, settings: Settings) -> None:
        """Let the service start with these settings, and wait until it has. Raises ``PentadError`` when it cannot."""
        self._is_ordered = True
        self._writer.write(packed_line(Order(settings, *passing_log())))
        await asyncio.shield(self._started)

    async def fetch_counts(self) -> None:
        """Add what the process has counted to our metrics; when it does not answer soon, they stay as they are."""
        if not self._started.done() or self.gone.is_set():
            return
        if self._counting is None:
            self._counting = self._loop.create_future()
            self._ask("counts")
        await asyncio.wait({self._counting}, timeout=_COUNTS_S)

    def read_files(self) -> None:
        """Have the service read the files of models and instructions anew."""
        self._ask("read")

    async def end(self) -> None:
        """Have the service stopped and wait until the process has ended.

        Raises ``PentadError`` when it ends otherwise. Cancelled, it leaves the process as it is.
        """
        if self.gone.is_set():
            return
        if not self._is_ordered:
            await self.kill()
            return
        self._ask("stop")
        await self.gone.wait()
        if self.exit_code != 0 and self._started.exception() is None:
            raise PentadError(f"the process of the {self._service} did not end well: {ending(self.exit_code)}")

    async def kill(self) -> None:
        """End the process now, and wait until it has ended, but not longer than the system can take for it."""
        self._process.kill()
        await asyncio.wait({self._following}, timeout=_EXIT_S)

    def _ask(self, request: str) -> None:
        self._writer.write(json.dumps([request]).encode() + b"\n")

    async def _follow(self) -> None:
        watching: asyncio.Task[None] | None = None
        try:
            while line := await self._reader.readline():
                self.silent_ticks = 0
                self._take(json.loads(line))
                if watching is None and self._started.done():
                    watching = asyncio.create_task(self._watch())
        except OSError:  # it was killed
            pass
        except (ValueError, TypeError) as error:
            log.error("the process of the %s says what cannot be read, and is ended: %s", self._service, error)
            self._process.kill()
        finally:
            if watching is not None:
                watching.cancel()
            self._writer.close()
            self.exit_code = await asyncio.to_thread(self._reaped)
            self._settle()
            self.gone.set()

    def _take(self, line: Any) -> None:
        match line:
            case ["started"] if not self._started.done():
                self._started.set_result(None)
            case ["failed", bool(is_of_settings), str(text)] if not self._started.done():
                self._started.set_exception((SettingsError if is_of_settings else PentadError)(text))
            case ["state", dict(checks), dict(notes), list(outages)]:
                self.checks, self.notes, self.outages = checks, notes, outages
            case ["log", dict(record)]:
                log_passed(record)
            case ["counts", list(rows)]:
                self._counts.add(rows)
                self._end_counting()
            case _:
                raise ValueError(f"it is no line of a service: {str(line)[:100]}")

    async def _watch(self) -> None:
        while self.silent_ticks < _STUCK_TICKS:
            await asyncio.sleep(_TICK_S)
            self.silent_ticks += 1
        log.error("the process of the %s has said nothing for %d s, and is killed", self._service, self.silent_ticks)
        self._process.kill()

    def _reaped(self) -> int:
        try:
            code = self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        os.close(self._life_fd)
        return code

    def _settle(self) -> None:
        """Answer whoever still waits."""
        if not self._started.done():
            how = ending(self.exit_code)
            self._started.set_exception(PentadError(f"the process of the {self._service} did not start: {how}"))
        self._started.exception()  # nobody may be waiting any more
        self._end_counting()

    def _end_counting(self) -> None:
        if self._counting is not None:
            self._counting.set_result(None)
            self._counting = None


def _start(launch: ProcessLaunch) -> subprocess.Popen[bytes]:
    """Start the process in its own process group, which keeps the terminal's Ctrl-C away from it."""
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, launch.to_json()],
        env=tool_environment(),  # whoever looks into it, as a tool of the same user may, finds no key there
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        cwd=Path(__file__).parents[2],  # we are found there wherever the parent runs
        pass_fds=(launch.socket_fd, launch.life_fd),
        process_group=0,
    )
