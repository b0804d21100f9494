"""The two pairs of stores that the memory is kept in: embedded ones, and servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.neo4j_graph import Neo4jGraph
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.qdrant_vectors import IN_MEMORY, QdrantVectors
from pentad.shared.vectors.vector_store import Vectors

BOTH = ["embedded", "servers"]
"""Parameters of a fixture that is made with each of them."""


@asynccontextmanager
async def vectors_and_graph(request: Any, folder: Path) -> AsyncIterator[tuple[Vectors, Graph]]:
    """The pair that the fixture's parameter names, prepared. The test's module imports `neo4j_server`."""
    vectors: Vectors
    graph: Graph
    if request.param == "embedded":
        vectors, graph = EdgeVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")
    else:
        uri = request.getfixturevalue("neo4j_server").open_uri
        vectors, graph = QdrantVectors(IN_MEMORY), Neo4jGraph(uri, timeout_s=60)
    await graph.prepare()
    yield vectors, graph
    await vectors.aclose()
    await graph.aclose()
