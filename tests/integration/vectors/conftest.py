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
from tests.support.qdrant_server import API_KEY, qdrant_url

__all__ = ["qdrant_url"]


@pytest.fixture(params=["embedded", "client", "archiver", "server"])
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
        made = QdrantVectors(request.getfixturevalue("qdrant_url"), API_KEY, 20)
        for there in await made.collections():
            await made.drop(there.name)
    await made.prepare("memory", 3)
    yield made
    await made.aclose()
