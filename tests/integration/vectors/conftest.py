"""The adapters of the port `Vectors`, each with a collection of three numbers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.qdrant_vectors import IN_MEMORY, QdrantVectors
from pentad.shared.vectors.vector_store import Vectors
from tests.integration.memory.serving import archiver_memory
from tests.support.stores.open_stores import OpenStores
from tests.support.stores.qdrant import QDRANT, qdrant_kinds


async def server_vectors(open_stores: OpenStores, kind: str) -> QdrantVectors:
    """Return a client of an empty server of this kind."""
    server = open_stores.get(QDRANT, kind)
    server.empty()
    return QdrantVectors(server.url, server.password, 20)


@pytest.fixture(params=qdrant_kinds())
async def on_server(request: Any, open_stores: OpenStores) -> AsyncIterator[QdrantVectors]:
    """A server of each kind that there is here."""
    made = await server_vectors(open_stores, request.param)
    yield made
    await made.aclose()


@pytest.fixture(params=["embedded", "client", "archiver", *(f"server-{kind}" for kind in qdrant_kinds())])
async def vectors(request: Any, tmp_path: Path) -> AsyncIterator[Vectors]:
    """Each adapter: in this process, the client's own store, by way of an archiver and its child, a server."""
    made: Vectors
    if request.param == "embedded":
        made = EdgeVectors(tmp_path / "vectors")
    elif request.param == "client":
        made = QdrantVectors(IN_MEMORY)
    elif request.param == "archiver":
        async with archiver_memory(request.getfixturevalue("redis_url"), ChildVectors(tmp_path / "vectors")) as made:
            await made.prepare("memory", 3)
            yield made
        return
    else:
        made = await server_vectors(request.getfixturevalue("open_stores"), request.param.removeprefix("server-"))
    await made.prepare("memory", 3)
    yield made
    await made.aclose()
