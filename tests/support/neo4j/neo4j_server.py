"""A real Neo4j for the suite of the graph, where a JDK and Maven are.

Ask for ``neo4j_server``. All test processes of a session use one server: the first that wants it starts it, and it
stops by itself when the last has gone, however that ended (`Neo4jForTests.java`). Tests are told apart by their
tenants. Its jars, 123 MB, are fetched by Maven once and kept in the user's cache folder. Where they cannot be had the
tests are skipped with the reason; with ``PENTAD_TEST_NEO4J=required``, for CI, they fail.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port

PASSWORD = "only-for-tests"
HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pentad-tests"
JARS = CACHE / "neo4j-5.26.30"
_OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
_FETCH_S = 600
_START_S = 120.0
_WORD_S = 5.0


@dataclass(frozen=True)
class Neo4jServer:
    """Two servers of one process: ``open_uri`` lets everybody in, ``password_uri`` wants ``neo4j`` and `PASSWORD`."""

    open_port: int
    password_port: int
    door: int
    """The port that is held on to for as long as the server is needed."""

    @property
    def open_uri(self) -> str:
        return f"bolt://127.0.0.1:{self.open_port}"

    @property
    def password_uri(self) -> str:
        return f"bolt://127.0.0.1:{self.password_port}"

    def hold(self, seconds: float) -> socket.socket:
        """A connection that keeps the server running. Raises ``OSError`` when there is none, or it is about to stop."""
        wire = socket.create_connection(("127.0.0.1", self.door), timeout=seconds)
        with contextlib.suppress(OSError):
            if wire.recv(16) == b"ready\n":
                return wire
        wire.close()
        raise ConnectionError("the server is about to stop")


@pytest.fixture(scope="session")
def neo4j_server(testrun_uid: str) -> Iterator[Neo4jServer]:
    """The server that all test processes of this session share."""
    note = Path(tempfile.gettempdir()) / f"pentad-neo4j-{testrun_uid}.json"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "lock"):
        server, wire = _running(note) or _started(note)
    with wire:
        yield server
    _wait_for_end(server)


def _wait_for_end(server: Neo4jServer) -> None:
    """Nothing is left running after the last test process: wait for it, unless others still hold the server."""
    limit = time.monotonic() + _WORD_S
    while time.monotonic() < limit:
        try:
            server.hold(_WORD_S).close()
        except ConnectionRefusedError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


def _running(note: Path) -> tuple[Neo4jServer, socket.socket] | None:
    """The server that another test process has started, and the hold on it."""
    try:
        server = Neo4jServer(**json.loads(note.read_text()))
        return server, server.hold(_START_S)  # one that is about to stop says so at once; a busy one is waited for
    except (OSError, ValueError):
        return None


def _started(note: Path) -> tuple[Neo4jServer, socket.socket]:
    need_jars()
    server = Neo4jServer(free_port(), free_port(), free_port())
    home = tempfile.mkdtemp(prefix="pentad-neo4j-")
    process = _launch(home, server, note)
    limit = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError):
            wire = server.hold(_START_S)
            break
        if not Path(f"/proc/{process}").exists() or time.monotonic() > limit:
            raise RuntimeError(f"Neo4j did not start:\n{Path(home, 'log').read_text()[-2000:]}")
        time.sleep(0.05)
    _set_password(server)
    note.write_text(json.dumps(server.__dict__))
    return server, wire


def java_command(home: str, ports: Sequence[int], note: Path) -> list[str]:
    """Return the command of the servers. ``ports``: open, with the password (0: none), the one to hold on to.

    Compiled for a quick start, and with one thread that collects garbage: it lives for a minute.
    """
    command = [_tool("java"), *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)]
    command += ["-Dlog4j2.disable.jmx=true", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", f"{JARS}/*", str(HERE / "Neo4jForTests.java"), home]
    return [*command, *map(str, ports), str(note)]


def _launch(home: str, server: Neo4jServer, note: Path) -> int:
    """Returns its process id. A shell starts it and ends: it is no child of a test process, which may end before it."""
    command = java_command(home, (server.open_port, server.password_port, server.door), note)
    shell = ["sh", "-c", 'log=$1; shift; "$@" </dev/null >"$log" 2>&1 & echo $!', "sh", f"{home}/log"]
    run = subprocess.run([*shell, *command], capture_output=True, text=True, timeout=30, check=True)
    return int(run.stdout)


def can_launch() -> bool:
    """Whether there are a JDK and Maven."""
    return bool(_tool("java") and _tool("mvn"))


def need_jars() -> None:
    """Skips where there is no JDK or no Maven, or Maven cannot fetch."""
    problem = None
    if not can_launch():
        problem = "no Neo4j: a JDK of version 17 or newer and Maven are needed"
    elif not (JARS / "complete").exists():
        problem = _fetch()
    if problem and os.environ.get("PENTAD_TEST_NEO4J") == "required":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


def _fetch() -> str | None:
    """Has Maven bring the jars. Returns what went wrong."""
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    command = [_tool("mvn"), "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    given = ["-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
    try:
        run = subprocess.run([*command, *given], capture_output=True, text=True, timeout=_FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no Neo4j: Maven did not fetch it in {_FETCH_S} s"
    if run.returncode:
        return f"no Neo4j: Maven cannot fetch it: {run.stdout[-300:]}"
    (JARS / "complete").touch()
    return None


def _tool(name: str) -> str:
    return shutil.which(name) or ""


def _set_password(server: Neo4jServer) -> None:
    """The first user must choose one before anything else."""
    from neo4j import GraphDatabase

    with GraphDatabase.driver(server.password_uri, auth=("neo4j", "neo4j")) as driver:
        change: Any = "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $chosen"
        driver.execute_query(change, chosen=PASSWORD, database_="system")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One test process at a time."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
