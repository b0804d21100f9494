"""A graph in a file that the version before metadata has made is gone on with, and that version goes on with ours."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from pentad.shared.graph.knowledge import Metadata
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.owners import Owner
from tests.support.graph_export import exported
from tests.support.graph_maker import edge, node, support

OURS = Owner("acme")
MADE_BEFORE = """
CREATE TABLE node (
    key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL, rank TEXT NOT NULL,
    kind TEXT NOT NULL, text TEXT NOT NULL, name TEXT NOT NULL, importance REAL NOT NULL, learned_at INTEGER NOT NULL,
    true_from INTEGER, true_until INTEGER, merged_into TEXT, UNIQUE (tenant, id)
);
CREATE TABLE edge (
    key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL, source TEXT NOT NULL,
    target TEXT NOT NULL, type TEXT NOT NULL, weight REAL NOT NULL, learned_at INTEGER NOT NULL, true_from INTEGER,
    true_until INTEGER, UNIQUE (tenant, id)
);
CREATE TABLE node_support (
    key INTEGER NOT NULL REFERENCES node ON DELETE CASCADE, tenant TEXT NOT NULL, anchor TEXT NOT NULL,
    task TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, anchor, task, user, at)
) WITHOUT ROWID;
CREATE TABLE edge_support (
    key INTEGER NOT NULL REFERENCES edge ON DELETE CASCADE, tenant TEXT NOT NULL, anchor TEXT NOT NULL,
    task TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, anchor, task, user, at)
) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
PUT_BEFORE = """
INSERT INTO node (tenant, id, user, rank, kind, text, name, importance, learned_at, true_from, true_until, merged_into)
VALUES ('acme', ?, '', '0', 'concept', 'a', 'a', ?, 1000, NULL, NULL, NULL)
ON CONFLICT (tenant, id) DO UPDATE SET importance = max(importance, excluded.importance)
WHERE user = excluded.user RETURNING key
"""
EDGE_BEFORE = """
INSERT INTO edge (tenant, id, user, source, target, type, weight, learned_at, true_from, true_until)
VALUES ('acme', 'a' || char(31) || 'b' || char(31) || 'related_to' || char(31), '', 'a', 'b', 'related_to', 0.5, 1000,
    NULL, NULL)
RETURNING key
"""


def made_before(file: Path) -> None:
    """Two nodes and an edge, as that version wrote them."""
    wire = sqlite3.connect(file, isolation_level=None)
    wire.execute("PRAGMA journal_mode=WAL")
    wire.executescript(MADE_BEFORE)
    keys = [wire.execute(PUT_BEFORE, (name, 0.5)).fetchall()[0][0] for name in "ab"]
    for table, key, anchor in (("node", keys[0], "a"), ("node", keys[1], "b")):
        wire.execute(f"INSERT INTO {table}_support VALUES (?, 'acme', 'anchor-{anchor}', 'task-0-1', '', 1000)", (key,))
    [(key,)] = wire.execute(EDGE_BEFORE).fetchall()
    wire.execute("INSERT INTO edge_support VALUES (?, 'acme', 'anchor-a-b', 'task-0-1', '', 1000)", (key,))
    wire.close()


async def test_what_was_there_stays_and_takes_metadata(tmp_path: Path) -> None:
    made_before(tmp_path / "graph.db")
    told = Metadata('{"from":"crm"}', 5)
    several = [SqliteGraph(tmp_path / "graph.db") for _ in range(4)]
    await asyncio.gather(*(graph.prepare() for graph in several))
    graph = several[0]
    there = [node("a", OURS, text="a"), node("b", OURS, text="a")]
    assert await graph.nodes(OURS, ["a", "b"]) == there
    assert await graph.edges(OURS, ["a"], 9) == [edge("a", "b", OURS)]
    await graph.upsert_nodes([node("a", OURS, support("new"), text="a", metadata=told)])
    await graph.upsert_edges([edge("a", "b", OURS, metadata=told)])
    assert [each.metadata for each in await graph.nodes(OURS, ["a", "b"])] == [told, None]
    assert [each.metadata for each in await several[1].edges(OURS, ["a"], 9)] == [told]
    for each in several:
        await each.aclose()


async def test_the_version_before_reads_and_writes_what_ours_has_made(tmp_path: Path) -> None:
    """The columns that it does not know stay as they are, and go with their node."""
    graph = SqliteGraph(tmp_path / "graph.db")
    told = Metadata('{"from":"crm"}', 5)
    await graph.upsert_nodes([node("a", OURS, metadata=told), node("b", OURS)])
    await graph.upsert_edges([edge("a", "b", OURS, metadata=told)])
    before = await exported(graph, "acme")
    wire = sqlite3.connect(tmp_path / "graph.db", isolation_level=None)
    assert wire.execute("PRAGMA user_version").fetchone() == (1,), "another it would not open"
    assert wire.execute(PUT_BEFORE, ("a", 0.5)).fetchall() == [(1,)]
    assert await exported(graph, "acme") == before
    wire.execute(PUT_BEFORE, ("a", 0.7))
    [kept] = await graph.nodes(OURS, ["a"])
    assert (kept.importance, kept.metadata) == (0.7, told)
    wire.execute("PRAGMA foreign_keys=ON")
    wire.execute("DELETE FROM node WHERE tenant = 'acme' AND id = 'a'")
    assert await graph.nodes(OURS, ["a"]) == []
    wire.close()
    await graph.aclose()


@pytest.mark.parametrize("table", ["node", "edge"])
async def test_an_update_that_was_broken_off_is_gone_on_with(tmp_path: Path, table: str) -> None:
    made_before(tmp_path / "graph.db")
    wire = sqlite3.connect(tmp_path / "graph.db")
    wire.execute(f"ALTER TABLE {table} ADD COLUMN metadata TEXT")
    wire.close()
    graph = SqliteGraph(tmp_path / "graph.db")
    assert [each.metadata for each in await graph.nodes(OURS, ["a", "b"])] == [None, None]
    assert [each.metadata for each in await graph.edges(OURS, ["a"], 9)] == [None]
    await graph.aclose()
