"""Writes to the graph in SQLite. Each function is the work of one transaction, which its caller has begun."""

import json
import sqlite3
from collections.abc import Sequence

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph import sqlite_schema as sql
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, Metadata, Support
from pentad.shared.graph.merging import edge_key, merged_edges, merged_nodes, metadata_rank, normal_name, rank
from pentad.shared.owners import Owner

_SEEN = "tenant = ?2 AND id IN (SELECT value FROM json_each(?3)) AND user IN (SELECT value FROM json_each(?4))"


def put_nodes(wire: sqlite3.Connection, nodes: Sequence[MemoryNode]) -> None:
    """Write nodes with their supports. Raises ``MemoryRefusedError`` for an id of another owner."""
    for node in merged_nodes(nodes):
        times = node.learned_at, node.true_from, node.true_until, node.merged_into
        words = rank(node), node.kind, node.text, normal_name(node.text), node.importance
        row = node.owner.tenant, node.id, node.owner.holder or "", *words, *times, *_columns(node.metadata)
        found = wire.execute(sql.PUT_NODE, row).fetchall()
        if not found:
            raise MemoryRefusedError(f"node {node.id} belongs to another owner: give this one an id of its own")
        _put_supports(wire, "node", found[0][0], node.owner.tenant, node.supports)


def put_edges(wire: sqlite3.Connection, edges: Sequence[MemoryEdge]) -> None:
    """Write edges with their supports. Raises ``MemoryRefusedError`` for ends that the owner does not see."""
    for edge in merged_edges(edges):
        tenant, user = edge.owner.tenant, edge.owner.holder or ""
        if wire.execute(sql.ENDS, (tenant, edge.source, edge.target, user)).fetchone() != (2,):
            raise MemoryRefusedError(
                f"the edge from {edge.source} to {edge.target} has an end that its owner cannot see: write nodes first"
            )
        what = edge.source, edge.target, edge.type, edge.weight
        times = edge.learned_at, edge.true_from, edge.true_until
        row = tenant, edge_key(edge), user, *what, *times, *_columns(edge.metadata)
        [(key,)] = wire.execute(sql.PUT_EDGE, row).fetchall()
        _put_supports(wire, "edge", key, tenant, edge.supports)


def end_nodes(wire: sqlite3.Connection, owner: Owner, ids: Sequence[str], at: int) -> None:
    """Mark these nodes as no longer true from this time on."""
    wire.execute(
        f"UPDATE node SET true_until = min(coalesce(true_until, ?1), ?1) WHERE {_SEEN}",
        (at, owner.tenant, json.dumps(list(ids)), json.dumps(owner.holders_seen)),
    )


def remove_nodes(wire: sqlite3.Connection, owner: Owner, ids: Sequence[str]) -> None:
    """Remove these nodes with their edges."""
    chosen = f"tenant = ? AND id IN {sql.AMONG} AND user IN {sql.AMONG}"
    gone = wire.execute(
        f"DELETE FROM node WHERE {chosen} RETURNING id",
        (owner.tenant, json.dumps(list(ids)), json.dumps(owner.holders_seen)),
    )
    _remove_edges(wire, owner.tenant, [identifier for (identifier,) in gone])


def retain(wire: sqlite3.Connection, tenant: str, task: str, anchors: Sequence[str]) -> None:
    """Remove the statements of a task except these, and what rested on the removed ones alone."""
    _take_away(wire, tenant, f"task = ? AND anchor NOT IN {sql.AMONG}", task, json.dumps(list(anchors)))


def remove_user(wire: sqlite3.Connection, tenant: str, user: str) -> None:
    """Remove a user's nodes, edges and statements."""
    for table in ("edge", "node"):
        wire.execute(f"DELETE FROM {table} WHERE tenant = ? AND user = ?", (tenant, user))
    _take_away(wire, tenant, "user = ?", user)


def remove_tenant(wire: sqlite3.Connection, tenant: str) -> None:
    """Remove all nodes and edges of a tenant."""
    for table in ("edge", "node"):
        wire.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))


def _columns(metadata: Metadata | None) -> tuple[str | None, str | None]:
    return (None, None) if metadata is None else (metadata.json, metadata_rank(metadata))


def _put_supports(wire: sqlite3.Connection, table: str, key: int, tenant: str, supports: Sequence[Support]) -> None:
    rows = [(key, tenant, s.anchor, s.task, s.user or "", s.at) for s in supports]
    wire.executemany(sql.PUT_SUPPORT.format(table), rows)


def _take_away(wire: sqlite3.Connection, tenant: str, condition: str, *values: str) -> None:
    """Remove statements, and what rested on them alone. ``condition`` is never user input."""
    _take_from(wire, "edge", tenant, condition, values)
    _remove_edges(wire, tenant, _take_from(wire, "node", tenant, condition, values))


def _take_from(wire: sqlite3.Connection, table: str, tenant: str, condition: str, values: Sequence[str]) -> list[str]:
    """Remove supports; return the ids of what rested on nothing else and was removed."""
    chosen = f"{table}_support WHERE tenant = ? AND {condition}"
    keys = [key for (key,) in wire.execute(f"SELECT DISTINCT key FROM {chosen}", (tenant, *values))]
    wire.execute(f"DELETE FROM {chosen}", (tenant, *values))
    bare = f"NOT EXISTS (SELECT 1 FROM {table}_support s WHERE s.key = {table}.key)"
    gone = wire.execute(f"DELETE FROM {table} WHERE key IN {sql.AMONG} AND {bare} RETURNING id", (json.dumps(keys),))
    return [identifier for (identifier,) in gone]


def _remove_edges(wire: sqlite3.Connection, tenant: str, ids: Sequence[str]) -> None:
    """Remove the edges of nodes that were removed."""
    for end in ("source", "target"):
        wire.execute(f"DELETE FROM edge WHERE tenant = ? AND {end} IN {sql.AMONG}", (tenant, json.dumps(list(ids))))
