"""The process from which scripts are forked: an interpreter that has started, and has imported what scripts often need.

It is started with an empty environment and apart from every setting, so there is no secret in its memory that a script
could find. It has one thread, and one line to the process that started it: when that is cut, all of it ends.
"""

import importlib
import json
import os
import select
import signal
import socket
import sys
import sysconfig
import zoneinfo
from contextlib import suppress
from typing import Any

from pentad.shared.sandbox import kernel
from pentad.shared.sandbox.limits import ScriptLimits
from pentad.shared.sandbox.script_process import Confinement, ScriptEnds, run_script

_IMPORTED_BEFORE = (
    "_strptime array base64 bisect bz2 calendar cmath collections colorsys contextlib copy csv ctypes dataclasses "
    "datetime decimal difflib email enum fractions functools gzip hashlib heapq hmac html html.parser io itertools "
    "json lzma math operator pathlib pickle platform pprint random re secrets shutil sqlite3 statistics string struct "
    "tempfile textwrap threading time traceback types typing unicodedata urllib.parse uuid xml.etree.ElementTree "
    "zipfile zlib zoneinfo"
).split()
"""Modules that scripts find ready. Those with a library of the system below them can only be imported here: a script
may read no folder of such libraries."""
_NOT_OF_THE_LIBRARY = frozenset({"site-packages", "dist-packages", "test", "idlelib", "turtledemo", "ensurepip"})
_ENDS = 4
_MAX_REQUEST_BYTES = 65_536


def main(control_fd: int) -> None:
    """Fork a script for each request, until the other end of the control socket is closed."""
    for name in _IMPORTED_BEFORE:
        with suppress(ImportError):  # an interpreter may be built without one
            importlib.import_module(name)
    for place in sys.path:
        with suppress(OSError):
            os.listdir(place)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    Zygote(socket.socket(fileno=control_fd)).serve()


class Zygote:
    """Forks scripts and tells of their ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._readable = kernel.open_places(readable_paths())
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """The process and the setup socket of each running script, by its pidfd."""

    def serve(self) -> None:
        """Serve until nobody can ask any more; scripts that run then are ended."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != self._control.fileno():
                    poll.unregister(descriptor)
                    self._ended(descriptor)
                    continue
                data, passed, _, _ = socket.recv_fds(self._control, _MAX_REQUEST_BYTES, _ENDS)
                if not data:
                    self._end_all()
                    return
                if (started := self._start(json.loads(data), passed)) is not None:
                    poll.register(started, select.POLLIN)

    def _start(self, asked: dict[str, Any], passed: list[int]) -> int | None:
        ends = ScriptEnds(*passed)
        try:
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                self._become(asked, ends, parent)
            setup = socket.socket(fileno=os.dup(ends.setup))
        finally:
            for end in passed:
                os.close(end)
        watched = os.pidfd_open(child)
        self._running[watched] = child, setup
        with suppress(OSError):
            socket.send_fds(setup, [b"started"], [watched])
        return watched

    def _become(self, asked: dict[str, Any], ends: ScriptEnds, parent: int) -> None:
        setup = socket.socket(fileno=ends.setup)
        try:
            kernel.die_with(parent)
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            limits = ScriptLimits(**asked["limits"])
            confinement = Confinement(asked["confined"], asked["landlock"], self._readable)

            def hand_over(listener: int) -> None:
                socket.send_fds(setup, [b"watch"], [listener])
                os.close(listener)

            run_script(ends, asked["folder"], limits, confinement, hand_over)
        except BaseException as error:
            with suppress(OSError):
                setup.send(f"failed {error}".encode()[:2000])
        finally:
            os._exit(1)

    def _ended(self, watched: int) -> None:
        child, setup = self._running.pop(watched)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what an unconfined script has started
        _, status = os.waitpid(child, 0)
        with suppress(OSError):
            setup.send(f"ended {os.waitstatus_to_exitcode(status)}".encode())
        setup.close()
        os.close(watched)

    def _end_all(self) -> None:
        for watched in self._running:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(watched, signal.SIGKILL)


def readable_paths() -> list[str]:
    """Return what every script may read: the standard library without what was installed, and the time zones."""
    found = [os.devnull]
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        with suppress(OSError):
            found += [entry.path for entry in os.scandir(folder) if entry.name not in _NOT_OF_THE_LIBRARY]

    return [*found, *(path for path in zoneinfo.TZPATH if os.path.isdir(path))]
