"""Without the package of a store, whoever asks it is told what to install."""

import sys
from pathlib import Path

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.graph.neo4j_graph import Neo4jGraph
from pentad.shared.owners import Owner
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.qdrant_vectors import QdrantVectors
from pentad.shared.vectors.selection import Selection

EVERYTHING = Selection(Owner("acme"))


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("neo4j", "qdrant_client", "qdrant_edge"):
        monkeypatch.setitem(sys.modules, name, None)
    for loaded in list(sys.modules):
        if loaded.startswith(("pentad.shared.vectors.edge_", "pentad.shared.vectors.qdrant_")):
            monkeypatch.delitem(sys.modules, loaded)


async def test_each_store_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"pentad\[server\]"):
        await EdgeVectors(tmp_path).count("memory", EVERYTHING)
    with pytest.raises(SettingsError, match=r"pentad\[stores\]"):
        await QdrantVectors("http://127.0.0.1:1").count("memory", EVERYTHING)
    with pytest.raises(SettingsError, match=r"pentad\[stores\]"):
        await Neo4jGraph("bolt://127.0.0.1:1").tally("acme")
