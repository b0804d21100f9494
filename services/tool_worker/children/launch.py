"""Starting a child and what it is told on its command line."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pentad.shared.child_processes import close_to_others, start_connected
from pentad.shared.settings import tool_environment
from pentad.shared.telemetry import LogForm, chosen_form

_MODULE = "pentad.services.tool_worker.children.child"
_STDERR = 2
_PATIENCE_S = 0.5
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Launch:
    """The one argument of a child, as JSON."""

    socket_fd: int
    life_fd: int
    parent_pid: int
    threads: int
    directory: str
    """The worker's working directory."""
    path: list[str]
    """The worker's ``sys.path``, so that both import the same."""
    plugins: list[str]
    log_level: int
    """Level and form of the child's log, the same as the worker's."""
    log_form: LogForm
    changing: bool
    """Whether the plugins are imported again when their files change."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Launch":
        return cls(**json.loads(text))


@dataclass(slots=True)
class Launched:
    """A child that was started, and our ends of what connects us."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    life_fd: int
    """Never written to: its end tells the child that we are gone."""

    def kill(self) -> None:
        """Kills the child and what its tools started in its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Cuts the lifeline, once. The child ends by itself when it has not yet."""
        if self.life_fd >= 0:
            os.close(self.life_fd)
            self.life_fd = -1


def launch(plugins: Sequence[str], threads: int, variables: Sequence[str] = (), *, changing: bool = False) -> Launched:
    """Starts a child. Call it in the thread of the event loop: when that thread ends, so does the child.

    Of our environment it sees what every program needs, and these variables; from then on it cannot look into us.
    Raises ``OSError`` when the system has no room for another process.
    """
    close_to_others()
    level = logging.getLogger("pentad").getEffectiveLevel()
    about = (os.getpid(), threads, *_surroundings(), list(plugins), level, chosen_form(), changing)
    started = start_connected(lambda end, life: _start(Launch(end, life, *about), tool_environment(variables)))
    return Launched(*started)


def _surroundings() -> tuple[str, list[str]]:
    return os.getcwd(), list(sys.path)


def _start(arguments: Launch, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process group of its own keeps the terminal's Ctrl-C away from it."""
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, arguments.to_json()],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        cwd=Path(__file__).parents[4],  # we are found there wherever the worker runs
        pass_fds=(arguments.socket_fd, arguments.life_fd),
        process_group=0,
    )


async def reap(launched: Launched, *, patient: bool) -> int:
    """Waits for the process's end and returns its code. It is killed unless it ends soon by itself.

    Polls: a watcher would belong to one event loop of the process, and we may be in another.
    """
    polls = round(_PATIENCE_S / _POLL_S) if patient else 0
    while (code := launched.process.poll()) is None:
        if polls <= 0:
            launched.kill()
        polls -= 1
        await asyncio.sleep(_POLL_S)
    launched.kill()  # what its tools started and left behind
    return code
