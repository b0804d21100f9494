"""Reads of the graph in SQLite."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pentad.shared.graph import sqlite_schema as sql
from pentad.shared.graph.knowledge import (
    NAMING_KINDS,
    BareEdge,
    EdgeType,
    GraphCondition,
    MemoryEdge,
    MemoryNode,
    NodeKind,
    Support,
    Tally,
    WalkedEdge,
)
from pentad.shared.graph.merging import metadata_from, sorted_supports
from pentad.shared.owners import Owner

_IDS = "(SELECT value FROM json_each(:ids))"
_TABLES = ("node", "edge")
_MOST_MISTAKES, _MISTAKES_REPORTED = 100, 3
"""Mistakes after which SQLite stops looking, and the number of them that is reported."""


def nodes_by(wire: sqlite3.Connection, owner: Owner, field: str, values: Sequence[str]) -> list[MemoryNode]:
    """Return nodes that the owner sees, by ``id`` or ``name``."""
    chosen = f"{sql.NODE} WHERE tenant = ? AND {field} IN {sql.AMONG} AND user IN {sql.AMONG} ORDER BY id"
    asked = owner.tenant, json.dumps(list(values)), json.dumps(owner.holders_seen)
    return _nodes(wire, wire.execute(chosen, asked).fetchall())


def edges_at(wire: sqlite3.Connection, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
    """Return edges that the owner sees from or to these nodes, the heaviest first."""
    asked = {
        "tenant": owner.tenant,
        "users": json.dumps(owner.holders_seen),
        "ids": json.dumps(list(ids)),
        "limit": limit,
    }
    mine = "tenant = :tenant AND user IN (SELECT value FROM json_each(:users))"
    ends = [f"SELECT key FROM edge WHERE {mine} AND {end} IN {_IDS}" for end in ("source", "target")]
    touching = " UNION ".join(ends)
    chosen = f"{sql.EDGE} WHERE key IN ({touching}) ORDER BY weight DESC, source, target, type, user LIMIT :limit"
    return _edges(wire, wire.execute(chosen, asked).fetchall())


def links_at(
    wire: sqlite3.Connection, owner: Owner, ids: Sequence[str], limit: int, types: Sequence[EdgeType], as_of: int | None
) -> list[WalkedEdge]:
    """Return edges from or to these nodes without their supports."""
    asked, more = _of_links(owner, ids, limit, types, as_of)
    found = wire.execute(sql.LINKS % (more, more), asked)
    return [WalkedEdge(source, target, EdgeType(kind), weight) for source, target, kind, weight in found]


def between(
    wire: sqlite3.Connection, owner: Owner, ids: Sequence[str], limit: int, types: Sequence[EdgeType], as_of: int | None
) -> list[BareEdge]:
    """Return edges whose ends are both among these nodes."""
    asked, more = _of_links(owner, ids, limit, types, as_of)
    found = wire.execute(sql.BETWEEN % more, asked)
    return [
        BareEdge(Owner.of_holder(owner.tenant, user), source, target, EdgeType(kind), weight, metadata_from(*told))
        for user, source, target, kind, weight, *told in found
    ]


def _of_links(
    owner: Owner, ids: Sequence[str], limit: int, types: Sequence[EdgeType], as_of: int | None
) -> tuple[dict[str, Any], str]:
    """Return the parameters of a query for links, and its further conditions."""
    asked: dict[str, Any] = {
        "tenant": owner.tenant,
        "users": json.dumps(owner.holders_seen),
        "limit": limit,
        "as_of": as_of,
    }
    asked |= {"ids": json.dumps(list(ids)), "types": json.dumps(list(types))}
    return asked, " ".join((sql.OF_TYPES if types else "", sql.AT_THE_TIME if as_of is not None else ""))


def node_page(wire: sqlite3.Connection, tenant: str, limit: int, after: str) -> list[MemoryNode]:
    """Return the next nodes of a tenant by their ids."""
    chosen = f"{sql.NODE} WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?"
    return _nodes(wire, wire.execute(chosen, (tenant, after, limit)).fetchall())


def edge_page(wire: sqlite3.Connection, tenant: str, limit: int, after: str) -> list[MemoryEdge]:
    """Return the next edges of a tenant by their keys."""
    chosen = f"{sql.EDGE} WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?"
    return _edges(wire, wire.execute(chosen, (tenant, after, limit)).fetchall())


def tally(wire: sqlite3.Connection, tenant: str) -> Tally:
    """Return the numbers of a tenant's nodes and edges."""
    naming = f"kind IN ({', '.join('?' * len(NAMING_KINDS))})"
    nodes, names = wire.execute(
        f"SELECT count(*), count(*) FILTER (WHERE {naming}) FROM node WHERE tenant = ?", (*NAMING_KINDS, tenant)
    ).fetchone()
    edges = wire.execute("SELECT count(*) FROM edge WHERE tenant = ?", (tenant,)).fetchone()[0]
    return Tally(nodes, edges, names)


def condition(wire: sqlite3.Connection) -> GraphCondition:
    """Return how much was written, and how much exists."""
    wire.execute("BEGIN")  # all of it at one time
    try:
        said = {what: (n, told) for what, n, told in wire.execute("SELECT what, n, told FROM counts")}
        found = sum(wire.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES)
    finally:
        wire.execute("COMMIT")
    return GraphCondition(said["identity"][1], said["written"][0], said["removed"][0], found)


def mistakes(wire: sqlite3.Connection) -> list[str]:
    """Return a few of the mistakes that SQLite finds in its file; empty when there are none.

    SQLite before 3.41 reports NULL values in tables without row ids by mistake. Damaged pages come before those.
    """
    found = (str(text) for (text,) in wire.execute(f"PRAGMA quick_check({_MOST_MISTAKES})"))
    return [text for text in found if text != "ok" and not text.startswith("NULL value in ")][:_MISTAKES_REPORTED]


def _nodes(wire: sqlite3.Connection, rows: Sequence[Any]) -> list[MemoryNode]:
    rests = _supports(wire, "node", rows)
    return [_node(row, sorted_supports(rests[row[0]])) for row in rows]


def _edges(wire: sqlite3.Connection, rows: Sequence[Any]) -> list[MemoryEdge]:
    rests = _supports(wire, "edge", rows)
    return [_edge(row, sorted_supports(rests[row[0]])) for row in rows]


def _node(row: Any, supports: tuple[Support, ...]) -> MemoryNode:
    _, tenant, user, identifier, kind, text, importance, learned_at, begin, end, into, *told = row
    what = NodeKind(kind), text, importance, learned_at, supports, begin, end, into
    return MemoryNode(identifier, Owner.of_holder(tenant, user), *what, metadata=metadata_from(*told))


def _edge(row: Any, supports: tuple[Support, ...]) -> MemoryEdge:
    _, tenant, user, source, target, kind, weight, learned_at, begin, end, *told = row
    what = source, target, EdgeType(kind), weight, learned_at, supports, begin, end
    return MemoryEdge(Owner.of_holder(tenant, user), *what, metadata=metadata_from(*told))


def _supports(wire: sqlite3.Connection, table: str, rows: Sequence[Any]) -> dict[int, list[Support]]:
    found: dict[int, list[Support]] = defaultdict(list)
    keys = json.dumps([row[0] for row in rows])
    for key, anchor, task, user, at in wire.execute(sql.SUPPORTS.format(table), (keys,)):
        found[key].append(Support(anchor, task, user or None, at))
    return found
