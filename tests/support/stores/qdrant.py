"""A real Qdrant server for tests, see `servers`.

``PENTAD_TEST_QDRANT`` is the path of a binary, which is started on a free port; ``PENTAD_TEST_QDRANT_URL`` names a
server that runs already, ``PENTAD_TEST_QDRANT_API_KEY`` its key; ``PENTAD_TEST_QDRANT_IMAGE`` names another image.
"""

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from tests.support.ports import free_port
from tests.support.stores.containers import ServerContainer, engine_problem
from tests.support.stores.servers import Killable, ServerProcess, StoreKinds, StoreServer, given_server

IMAGE = os.environ.get(
    "PENTAD_TEST_QDRANT_IMAGE",
    "qdrant/qdrant:v1.19.0@sha256:057ee3a8da769fe7310dd3537b4dc7583bf87a95ce8ac43c0af5a46bc580d1fc",
)
BINARY = os.environ.get("PENTAD_TEST_QDRANT", "")
API_KEY = "only-for-tests"
_GIVEN = "PENTAD_TEST_QDRANT_URL"
_PORT = 6333


def _server(url: str, running: Killable, key: str | None = API_KEY) -> StoreServer:
    def empty() -> None:
        with _client(url, key) as client:
            for there in client.get_collections().collections:
                client.delete_collection(there.name)

    return StoreServer(url, running, empty, key)


@contextmanager
def _client(url: str, key: str | None) -> Iterator[QdrantClient]:
    client = QdrantClient(url=url, headers={"api-key": key} if key else None, check_compatibility=False)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _given() -> Iterator[StoreServer]:
    url, key = os.environ[_GIVEN], os.environ.get("PENTAD_TEST_QDRANT_API_KEY")

    def size() -> int:
        with _client(url, key) as client:
            return len(client.get_collections().collections)

    server = _server(url, given_server(_GIVEN, url, size), key)
    yield server
    server.empty()


@contextmanager
def _process() -> Iterator[StoreServer]:
    if not Path(BINARY).is_file():
        pytest.fail(f"PENTAD_TEST_QDRANT={BINARY} is no file: set it to the path of Qdrant's binary")
    port, grpc = free_port(), free_port()
    settings = {
        "QDRANT__SERVICE__API_KEY": API_KEY,
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(grpc),
        "QDRANT__TELEMETRY_DISABLED": "true",
        "QDRANT__STORAGE__STORAGE_PATH": "storage",
        "QDRANT__STORAGE__SNAPSHOTS_PATH": "snapshots",
    }
    with ServerProcess(f"127.0.0.1:{port}", lambda _: [str(Path(BINARY).resolve())], answers, settings) as process:
        yield _server(f"http://{process.place}", process)


@contextmanager
def _container() -> Iterator[StoreServer]:
    if problem := engine_problem():
        pytest.skip(f"no Qdrant in a container: {problem}; PENTAD_TEST_QDRANT or {_GIVEN} names another one")
    with ServerContainer(IMAGE, _PORT, answers, {"QDRANT__SERVICE__API_KEY": API_KEY}) as container:
        yield _server(f"http://{container.place}", container)


def answers(place: str) -> bool:
    """Whether a Qdrant is ready there."""
    try:
        with urllib.request.urlopen(f"http://{place}/readyz", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


QDRANT = StoreKinds(_GIVEN, _given, _process, _container)


def qdrant_kinds() -> list[str]:
    """Return the kinds of servers that there are here."""
    return QDRANT.here(bool(BINARY))
