"""Chooses the stores of the memory: a server where one is set, else the embedded one that an archiver has open.

Adapters that are not chosen are not imported, so that starting a service does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pentad.shared.graph.graph_store import Graph
from pentad.shared.memory.archiver_client import ArchiverGraph, ArchiverVectors
from pentad.shared.memory.memory_counts import MemoryCounts
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors

if TYPE_CHECKING:
    from pentad.shared.graph.neo4j_graph import Neo4jGraph
    from pentad.shared.graph.sqlite_graph import SqliteGraph
    from pentad.shared.memory.child_vectors import ChildVectors
    from pentad.shared.vectors.qdrant_vectors import QdrantVectors


def vectors_of(settings: Settings, store: Store) -> Vectors:
    """Return the vectors as any service reaches them. Nothing is opened before the first call."""
    server = server_vectors(settings)
    if server is None:
        return ArchiverVectors(store)
    server.removals = MemoryCounts(store)
    return server


def server_vectors(settings: Settings) -> QdrantVectors | None:
    """Return the client of QDRANT_URL; None where it is not set. Raises ``SettingsError`` for an invalid address."""
    if settings.qdrant_url is None:
        return None
    from pentad.shared.vectors.qdrant_vectors import QdrantVectors

    key = settings.qdrant_api_key
    return QdrantVectors(settings.qdrant_url, key.get_secret_value() if key else None)


def embedded_vectors(settings: Settings) -> ChildVectors:
    """Return the vectors in the data directory: for archivers, of which one at a time has them open."""
    from pentad.shared.memory.child_vectors import ChildVectors

    return ChildVectors(settings.pentad_data_dir.absolute() / "memory" / "vectors")


def graph_of(settings: Settings, store: Store) -> Graph:
    """Return the graph as any service reaches it. Nothing is opened before the first call."""
    return server_graph(settings) or ArchiverGraph(store)


def server_graph(settings: Settings) -> Neo4jGraph | None:
    """Return the client of NEO4J_URI; None where it is not set. Raises ``SettingsError`` for an invalid address."""
    if settings.neo4j_uri is None:
        return None
    from pentad.shared.graph.neo4j_graph import Neo4jGraph

    password = settings.neo4j_password
    return Neo4jGraph(
        settings.neo4j_uri, settings.neo4j_username, password.get_secret_value() if password is not None else None
    )


def embedded_graph(settings: Settings) -> SqliteGraph:
    """Return the graph in the data directory: for archivers, of which one at a time has it open."""
    from pentad.shared.graph.sqlite_graph import SqliteGraph

    return SqliteGraph(settings.pentad_data_dir.absolute() / "memory" / "graph" / "graph.db")
