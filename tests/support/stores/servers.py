"""Which server of a store tests have: one that is named, a process of their own, a container, or none.

``PENTAD_TEST_REDIS_URL``, ``PENTAD_TEST_QDRANT_URL`` and ``PENTAD_TEST_NEO4J_URI`` name servers that run already. Tests
empty them, so one that is not empty at the beginning is refused.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol

import pytest

from tests.support.stores.containers import engine_problem

_START_S = 60.0


class Killable(Protocol):
    """A server that tests kill and start again."""

    not_killed: str | None
    """Why it is not killed; None: it is."""

    @property
    def place(self) -> str:
        """Host and port."""
        ...

    def kill(self) -> None:
        """Kill the server's process at once."""
        ...

    def start(self) -> None:
        """Start it again with what it had, at the same place, and wait until it answers."""
        ...


class StoreServer:
    """A server of a store, with what a client of it needs."""

    def __init__(self, url: str, running: Killable, empty: Callable[[], None], password: str | None = None) -> None:
        self.url, self.running, self.empty, self.password = url, running, empty, password


class GivenServer:
    """A server that runs already, which is never killed."""

    def __init__(self, variable: str, place: str) -> None:
        self.place = place
        self.not_killed: str | None = f"{variable} names it: what runs already is not killed"

    def kill(self) -> None:
        raise NotImplementedError(self.not_killed)

    def start(self) -> None:
        raise NotImplementedError(self.not_killed)


_looked_at: set[str] = set()
"""Variables whose servers were found to be empty when this test process began with them."""


def given_server(variable: str, place: str, size: Callable[[], int]) -> GivenServer:
    """Return the server that a variable names. ``size``: the number of things in it.

    Fails where there are any, and where several test processes would share it.
    """
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1":
        pytest.fail(f"{variable}: tests on one server empty it for each other: run them in one process (-n 1)")
    if variable not in _looked_at:
        if found := size():
            pytest.fail(f"{variable} names a server that has {found} things in it: tests only use an empty one")
        _looked_at.add(variable)
    return GivenServer(variable, place)


class ServerProcess:
    """A server process of ours, with a folder that survives its kill and is removed in the end."""

    not_killed: str | None = None

    def __init__(
        self,
        place: str,
        command: Callable[[Path], Sequence[str]],
        answers: Callable[[str], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``command``: from the folder; ``answers`` says of the place whether the server there answers."""
        self.place = place
        self._command, self._answers, self._environment = command, answers, dict(environment or {})
        self._folder = Path(tempfile.mkdtemp(prefix="pentad-store-"))
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self._folder),
                cwd=self._folder,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        limit = time.monotonic() + _START_S
        while not self._answers(self.place):
            if self._process.poll() is not None or time.monotonic() > limit:
                self.kill()
                raise RuntimeError(f"it did not start:\n{(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def __enter__(self) -> "ServerProcess":
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._remove()

    def _remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


Opening = Callable[[], AbstractContextManager[StoreServer]]
"""Starts a server, or skips with the reason."""


class StoreKinds:
    """The ways to have a server of a store, in the order of preference."""

    def __init__(self, variable: str, given: Opening, process: Opening, container: Opening) -> None:
        """``variable`` names a server that runs already."""
        self._variable = variable
        self._openings = {"given": given, "process": process, "container": container}

    def here(self, has_process: bool) -> list[str]:
        """Return the kinds on which a suite runs here: the one that is named alone, else all that can be had."""
        if os.environ.get(self._variable):
            return ["given"]
        found = ["process"] if has_process else []
        return found if engine_problem() and found else [*found, "container"]

    def open(self, kind: str) -> AbstractContextManager[StoreServer]:
        """Return a server of this kind, for ``with``; a container that cannot be had skips with the reason."""
        return self._openings[kind]()
