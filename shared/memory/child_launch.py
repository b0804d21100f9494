"""Starting and ending the child process of the embedded store."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pentad.shared.child_processes import start_connected
from pentad.shared.settings import tool_environment

_MODULE = "pentad.shared.memory.vectors_child"
_STDERR = 2
_END_S = 10.0
"""How long a child may take to write everything down."""


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """The one argument of a child, as JSON."""

    folder: str
    lock_fd: int
    """The folder's lock: the parent has it, and the child keeps it until its own end."""
    socket_fd: int
    life_fd: int
    parent_pid: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ChildOrder":
        return cls(**json.loads(text))


@dataclass(slots=True)
class StartedChild:
    """A child that was started, and our ends of what connects us."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    life_fd: int
    """Never written to: its end tells the child that we are gone."""

    def ended(self) -> int:
        """Wait for its end, at last by killing it; returns its code. Its connection is closed by then. For a thread."""
        try:
            code = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        os.close(self.life_fd)
        return code


def start_child(folder: Path, lock: int) -> StartedChild:
    """Start a child. Call it in the thread of the event loop: when that thread ends, so does the child.

    Raises ``OSError`` when the system has no room for another process.
    """
    started = start_connected(lambda end, life: _start(ChildOrder(str(folder), lock, end, life, os.getpid())))
    return StartedChild(*started)


def _start(order: ChildOrder) -> subprocess.Popen[bytes]:
    """A process group of its own keeps the terminal's Ctrl-C away from it."""
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, order.to_json()],
        env=tool_environment(),  # whoever looks into it, as a tool of the same user may, finds no key there
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        cwd=Path(__file__).parents[3],  # we are found there wherever the archiver runs
        pass_fds=(order.lock_fd, order.socket_fd, order.life_fd),
        process_group=0,
    )
