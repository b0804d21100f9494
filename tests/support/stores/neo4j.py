"""A real Neo4j server for tests, see `servers`, that belongs to one test process and can be killed.

``PENTAD_TEST_NEO4J_URI`` names a server that runs already, ``PENTAD_TEST_NEO4J_PASSWORD`` the password of its user
``neo4j``; ``PENTAD_TEST_NEO4J_IMAGE`` names another image. A process is that of `neo4j_server`, for suites that need no
kill.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from neo4j import Driver, GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

from tests.support.neo4j.neo4j_server import can_launch, java_command, need_jars
from tests.support.ports import free_port
from tests.support.stores.containers import ServerContainer
from tests.support.stores.servers import Killable, ServerProcess, StoreKinds, StoreServer, given_server

IMAGE = os.environ.get(
    "PENTAD_TEST_NEO4J_IMAGE",
    "neo4j:5.26.30-community@sha256:b3c4f3ded24b3e2bec0753e2c535bb0885b08410fe29b33852861404c8830dac",
)
_GIVEN = "PENTAD_TEST_NEO4J_URI"
_PORT = 7687


def _server(uri: str, running: Killable, password: str | None = None) -> StoreServer:
    def empty() -> None:
        with _driver(uri, password) as driver:
            driver.execute_query("MATCH (n) DETACH DELETE n")

    return StoreServer(uri, running, empty, password)


def _driver(uri: str, password: str | None) -> Driver:
    return GraphDatabase.driver(uri, auth=("neo4j", password) if password else None)


@contextmanager
def _given() -> Iterator[StoreServer]:
    uri, password = os.environ[_GIVEN], os.environ.get("PENTAD_TEST_NEO4J_PASSWORD")

    def size() -> int:
        with _driver(uri, password) as driver:
            return int(driver.execute_query("MATCH (n) RETURN count(n) AS found").records[0]["found"])

    server = _server(uri, given_server(_GIVEN, urlsplit(uri).netloc, size), password)
    yield server
    server.empty()


class Neo4jProcess:
    """The launcher's open server alone; it ends by itself when this test process does."""

    not_killed: str | None = None

    def __init__(self) -> None:
        self._port, self._door = free_port(), free_port()
        self._wire: socket.socket | None = None
        self._process = ServerProcess(f"127.0.0.1:{self._port}", self._command, self._holds)

    def _command(self, folder: Path) -> Sequence[str]:
        return java_command(str(folder / "home"), (self._port, 0, self._door), folder / "note")

    def _holds(self, place: str) -> bool:
        """Whether it answers; a connection to its door keeps it running."""
        try:
            self._wire = self._wire or socket.create_connection(("127.0.0.1", self._door), timeout=5)
        except OSError:
            return False
        return answers(place)

    @property
    def place(self) -> str:
        """Host and port."""
        return self._process.place

    def kill(self) -> None:
        self._process.kill()
        self._let_go()

    def start(self) -> None:
        self._process.start()

    def __enter__(self) -> "Neo4jProcess":
        self._process.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.__exit__(None, None, None)
        self._let_go()

    def _let_go(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


@contextmanager
def _process() -> Iterator[StoreServer]:
    need_jars()
    with Neo4jProcess() as process:
        yield _server(f"bolt://{process.place}", process)


@contextmanager
def _container() -> Iterator[StoreServer]:
    with ServerContainer(IMAGE, _PORT, answers, {"NEO4J_AUTH": "none"}) as container:
        yield _server(f"bolt://{container.place}", container)


def answers(place: str) -> bool:
    """Whether a Neo4j without a password answers there."""
    try:
        with _driver(f"bolt://{place}", None) as driver:
            driver.verify_connectivity()
    except (DriverError, Neo4jError, OSError):
        return False
    return True


NEO4J = StoreKinds(_GIVEN, _given, _process, _container)


def neo4j_kinds() -> list[str]:
    """The kinds of servers that there are here."""
    return NEO4J.here(can_launch())
