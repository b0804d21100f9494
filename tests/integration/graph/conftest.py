"""The adapters of the port `Graph`, each with a tenant that nobody else uses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.neo4j_graph import Neo4jGraph
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.owners import Owner
from tests.integration.memory.serving import archiver_graph
from tests.support.neo4j.neo4j_server import neo4j_server
from tests.support.stores.neo4j import NEO4J

__all__ = ["neo4j_server"]


@pytest.fixture(params=["sqlite", "archiver", *(f"neo4j-{kind}" for kind in NEO4J.here(True))])
async def graph(request: Any, tmp_path: Path) -> AsyncIterator[Graph]:
    """Each adapter: in this process, by way of an archiver, a server."""
    made: Graph
    if request.param == "sqlite":
        made = SqliteGraph(tmp_path / "graph.db")
    elif request.param == "archiver":
        async with archiver_graph(request.getfixturevalue("redis_url"), SqliteGraph(tmp_path / "graph.db")) as made:
            await made.prepare()
            yield made
        return
    elif request.param == "neo4j-process":
        made = Neo4jGraph(request.getfixturevalue("neo4j_server").open_uri, timeout_s=60)
    else:
        server = request.getfixturevalue("open_stores").get(NEO4J, request.param.removeprefix("neo4j-"))
        made = Neo4jGraph(server.url, "neo4j", server.password, timeout_s=60)
    await made.prepare()
    yield made
    await made.aclose()


@pytest.fixture
def ours() -> Owner:
    """What is nobody's, of a tenant of this test alone."""
    return Owner(f"t{uuid4().hex}")


@pytest.fixture
def ada(ours: Owner) -> Owner:
    return Owner(ours.tenant, "ada")


@pytest.fixture
def bob(ours: Owner) -> Owner:
    return Owner(ours.tenant, "bob")
