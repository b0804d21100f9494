"""Processes of Pentad that begin with everything imported.

A process of Pentad takes half a second of processor time to import itself, and the tests start hundreds. A warm parent,
one for each test process, imports once; each process that a test starts is forked from it. It is a process as any
other: with an id, an environment, a folder and an output of its own, killed by signals, and gone when killed. What is
not the same: its command line in ``/proc`` and its first environment there are those of the warm parent.

    process = start(["python", "-m", "pentad.services.router"], environment, folder, output, output)

What needs an interpreter of its own gets one: other variables of Python or of the dynamic linker, another command.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[3]
_IMPORTED = (
    *(f"pentad.services.{name}.app" for name in ("gateway", "router", "task_runner", "tool_worker")),
    *(f"pentad.services.{name}.app" for name in ("embedding", "archiver")),
    *("pentad.cli.main", "pentad.cli.up"),
)
"""Modules that every process of Pentad would import by itself, of one service or another."""
_OF_THE_INTERPRETER = ("PYTHON", "LD_", "GLIBC_", "MALLOC_")
"""Beginnings of the names of variables that an interpreter, or its linker, reads once: when it begins."""
_STATUS = struct.Struct("i")
_MAX_REQUEST = 1 << 20


class WarmProcess:
    """A process that was forked from the warm parent, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, ended: int, command: Sequence[str]) -> None:
        """``ended``: the reading end of the pipe to which the warm parent writes how the process has ended."""
        self.pid = pid
        self.args = command
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Return the exit code, a negative one for the signal that killed it; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code. Raises ``subprocess.TimeoutExpired``."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it at once."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            said = os.read(self._ended, _STATUS.size)
            os.close(self._ended)
            assert said, "the warm parent has ended before its children"
            self.returncode = os.waitstatus_to_exitcode(_STATUS.unpack(said)[0])
        return self.returncode


Running = subprocess.Popen[bytes] | WarmProcess
"""A process that a test has started, in either way."""


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    output: IO[bytes],
    errors: IO[bytes],
    *,
    leads: bool = False,
    warm: bool = True,
) -> Running:
    """Start a process. ``leads``: as the leader of a new session; ``warm``: forked, if its interpreter may be ours."""
    if warm and _may_fork(command, environment):
        return _parent().fork(command, environment, folder, (output.fileno(), errors.fileno()), leads=leads)
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL if leads else None,
        stdout=output,
        stderr=errors,
        start_new_session=leads,
    )


def _may_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    is_module = list(command[:2]) == [sys.executable, "-m"]
    is_ours = command[0] == str(Path(sys.executable).with_name("pentad"))
    return (is_module or is_ours) and _of_interpreter(environment) == _of_interpreter(_environment())


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class WarmParent:
    """The test's end of the socket to its warm parent, which ends with it."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=_environment(),
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        outputs: tuple[int, int],
        *,
        leads: bool,
    ) -> WarmProcess:
        """Have a process forked, and return it once it is there."""
        asked = {"command": list(command), "environment": dict(environment), "folder": str(folder), "leads": leads}
        reading, writing = os.pipe()
        try:
            with self._asking:  # tests restart processes in threads
                socket.send_fds(self._wire, [json.dumps(asked).encode()], [*outputs, writing])
                pid = int(self._wire.recv(32))
        finally:
            os.close(writing)
        return WarmProcess(pid, reading, command)

    def close(self) -> None:
        """Let it end, and wait for that."""
        self._wire.close()
        self._process.wait()


@cache
def _parent() -> WarmParent:
    made = WarmParent()
    atexit.register(made.close)
    return made


# The warm parent itself


def _serve(wire: socket.socket) -> dict[str, Any] | None:
    """Fork for each request, and tell how each child has ended; a child returns with what it is to run."""
    waking, woken = socket.socketpair()
    waking.setblocking(False)
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C ends the test, and with it this
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    told: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([wire, waking], [], [])
        if waking in ready:
            waking.recv(4096)
            _tell_ended(told)
        if wire not in ready:
            continue
        request, handles, _, _ = socket.recv_fds(wire, _MAX_REQUEST, 3)
        if not request:
            return None
        pid = os.fork()
        if pid == 0:
            return _become(json.loads(request), handles[0], handles[1])
        told[pid] = handles[2]
        for handle in handles[:2]:
            os.close(handle)
        wire.send(str(pid).encode())


def _tell_ended(told: dict[int, int]) -> None:
    while told:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pipe = told.pop(pid)
        with suppress(BrokenPipeError):  # the test does not ask any more
            os.write(pipe, _STATUS.pack(status))
        os.close(pipe)


def _become(request: dict[str, Any], output: int, errors: int) -> dict[str, Any]:
    """Make this fork what a new interpreter would be."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["leads"]:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    return request


def _run(command: Sequence[str]) -> None:
    """Run the command as its interpreter would: ``python -m NAME ...`` or ``pentad ...``."""
    if command[0] == sys.executable:
        _, _, module, *arguments = command
        sys.argv = [module, *arguments]
        sys.path[0] = os.getcwd()
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        sys.path[0] = str(Path(command[0]).parent)
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    for imported in _IMPORTED:
        import_module(imported)
    gc.freeze()
    to_run = _serve(socket.socket(fileno=int(sys.argv[1])))
    if to_run is not None:
        _run(to_run["command"])
