"""The constraints and indexes of the graph in a Neo4j server, and the repair of what was written before they existed.

Without the constraint, two transactions that write the same new node at once make two of it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph import cypher
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode
from pentad.shared.graph.merging import merged_edges, merged_nodes, rank
from pentad.shared.graph.neo4j_rows import edge_from, edge_row, node_from, node_row
from pentad.shared.graph.neo4j_session import AlreadyThereError, BrokenConstraintError, Neo4jSession, rows

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

log = logging.getLogger(__name__)

_FIRST_LOOK_S = 60.0
"""Seconds that the first look may take: a server that has just started is slow."""
_MAKE_S = 300.0
"""Seconds that one constraint or index, or one repair, may take: a graph may be large."""
_ATTEMPTS = 3
"""Times that a constraint is tried, with a repair before each but the first."""
_KEYS_PER_REPAIR = 100
"""Repeated nodes that one transaction repairs."""


class Neo4jSchema:
    """Makes what is missing, once for each process and whenever it is asked to look again."""

    def __init__(self, session: Neo4jSession) -> None:
        self._session, self._preparing, self._is_there = session, asyncio.Lock(), False

    async def ensure(self) -> None:
        """Make sure that nothing is missing before the first write of this process. Raises ``MemoryOutageError``."""
        if not self._is_there:
            await self._prepare(None)

    async def prepare(self) -> None:
        """Look whether anything is missing, and make it. Raises ``MemoryOutageError``."""
        await self._prepare(None if self._is_there else _FIRST_LOOK_S)

    async def _prepare(self, look_s: float | None) -> None:
        async with self._preparing:
            there = await self._session.read(lambda tx: rows(tx, cypher.INDEXES), look_s)
            known = {(one["label"], tuple(one["properties"]), one["unique"]) for one in there}
            missing = [statement for what, statement in cypher.SCHEMA.items() if what not in known]
            for statement in missing:
                await self._make(statement)
            if missing:
                await self._change(cypher.AWAIT_INDEXES, seconds=round(_MAKE_S))
            self._is_there = True

    async def _make(self, statement: str) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with suppress(AlreadyThereError):  # another process was faster
                    await self._change(statement)
            except BrokenConstraintError:
                if attempt == _ATTEMPTS:
                    raise
                await self._repair()
            else:
                return

    async def _repair(self) -> None:
        """Merge nodes that are there several times, with their edges, and keep one identity of the store."""
        await self._change(cypher.REMOVE_OTHER_IDENTITIES)
        while found := await self._session.write(_merge_repeated, _MAKE_S):
            log.warning("%d nodes of the graph were there several times, and have been merged", found)

    async def _change(self, query: str, **given: Any) -> None:
        await self._session.write(lambda tx: rows(tx, query, **given), _MAKE_S)


async def _merge_repeated(tx: "AsyncManagedTransaction") -> int:
    """Write some of the repeated nodes once, with the edges of all of them; return how many there were."""
    keys = [row["key"] for row in await rows(tx, cypher.REPEATED_KEYS, limit=_KEYS_PER_REPAIR)]
    if not keys:
        return 0
    found = [node_from(row["kept"]) for row in await rows(tx, cypher.REPEATED_NODES, keys=keys)]
    nodes = merged_nodes(_of_first_owners(found))
    edges = [edge_from(row) for row in await rows(tx, cypher.REPEATED_EDGES, keys=keys)]
    await rows(tx, cypher.REMOVE_REPEATED, keys=keys)
    await put_nodes(tx, [node_row(node) for node in nodes])
    for kind, given in _rows_by_type(merged_edges([edge for edge in edges if _sees_its_ends(edge, nodes)])):
        await rows(tx, cypher.PUT_EDGES[kind], rows=given)  # to each copy of an end that is not repaired yet
    return len(keys)


def _of_first_owners(found: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Leave out nodes whose id another owner had first: they would have been refused."""
    first: dict[tuple[str, str], MemoryNode] = {}
    for node in sorted(found, key=rank):
        first.setdefault((node.owner.tenant, node.id), node)
    return [node for node in found if node.owner == first[node.owner.tenant, node.id].owner]


def _sees_its_ends(edge: MemoryEdge, nodes: Sequence[MemoryNode]) -> bool:
    ends = [n for n in nodes if n.owner.tenant == edge.owner.tenant and n.id in (edge.source, edge.target)]
    return all(edge.owner.sees(end.owner.holder) for end in ends)


async def put_nodes(tx: "AsyncManagedTransaction", given: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of nodes, merged with what is there."""
    if foreign := await rows(tx, cypher.PUT_NODES, rows=given):
        raise MemoryRefusedError(f"node {foreign[0]['id']} belongs to another owner: give this one an id of its own")


async def put_edges(tx: "AsyncManagedTransaction", edges: Sequence[MemoryEdge]) -> None:
    """Write edges, merged with what is there."""
    for kind, given in _rows_by_type(edges):
        if (await rows(tx, cypher.PUT_EDGES[kind], rows=given))[0]["written"] != len(given):
            raise MemoryRefusedError(f"an edge of type {kind} has an end that its owner cannot see: write nodes first")


def _rows_by_type(edges: Sequence[MemoryEdge]) -> list[tuple[EdgeType, list[dict[str, Any]]]]:
    of_types = [(kind, [edge_row(edge) for edge in edges if edge.type is kind]) for kind in EdgeType]
    return [(kind, given) for kind, given in of_types if given]
