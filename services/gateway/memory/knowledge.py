"""The knowledge graph for clients: nodes, their neighbours, and the size of the graph."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pentad.contracts.ids import rfc3339
from pentad.contracts.memories import KnownEdge, KnownNode, Neighbourhood, NodeSource, ReachedNode, SupportingStatement
from pentad.services.gateway.edge.problems import busy, invalid, missing
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import BareEdge, MemoryNode, Support, Tally
from pentad.shared.graph.merging import edge_id
from pentad.shared.graph.metadata import metadata_told
from pentad.shared.graph.traversal import MOST_NODES, STRATEGIES, Reached, Walk
from pentad.shared.memory.statements import is_statement
from pentad.shared.owners import Owner

T = TypeVar("T")

MOST_SHOWN = 50
"""Statements of a node that are shown."""
_MAX_EDGES = 2_000
"""Edges of a page of a neighbourhood that are shown, the heaviest."""
_MAX_LINKS = 10_000
"""Edges that are looked at for those of a later page: some of them lead elsewhere."""
_WALK_S = 5.0
"""Seconds that a walk may take: it sends many requests to the graph."""


class Knowledge:
    """Reads the graph. Methods raise ``OutageError`` if it is unavailable, and ``ProblemError``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def node(self, owner: Owner, name: str) -> KnownNode:
        """Return a node that the owner sees."""
        [node] = await self._nodes(owner, [name])
        return KnownNode(**_told(node, owner))

    async def neighbours(self, starts: Sequence[str], strategy: str, walk: Walk, skip: int = 0) -> Neighbourhood:
        """Return the surroundings of nodes that the walk's owner sees. ``starts`` has no duplicates.

        ``skip``: how many nodes of the walk earlier pages had.
        """
        await self._nodes(walk.owner, starts)
        try:
            async with asyncio.timeout(_WALK_S) as limit:
                return await self._around(starts, strategy, walk, skip)
        except TimeoutError:
            if not limit.expired():
                raise
            raise busy(
                f"the walk took longer than {_WALK_S:g} s: ask for less depth or fewer nodes", outage=True
            ) from None

    async def tally(self, tenant: str) -> Tally:
        """Return the numbers of the tenant's nodes and edges, of all owners."""
        try:
            return await self._graph.tally(tenant)
        except MemoryRefusedError as error:  # an archiver of an earlier version has no graph
            raise busy(str(error), outage=True) from None

    async def aclose(self) -> None:
        """Close the connection to the graph."""
        await self._graph.aclose()

    async def _nodes(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        """Return the nodes with these ids. Raises ``ProblemError`` (404) if one is missing."""
        found = await _asked(self._graph.nodes(owner, names))
        if len(found) < len(names):
            gone = [] if len(names) == 1 else sorted(set(names) - {node.id for node in found})
            raise missing(" ".join(("there is no such node", *gone[:1])))
        return found

    async def _around(self, starts: Sequence[str], strategy: str, walk: Walk, skip: int) -> Neighbourhood:
        end = min(skip + walk.nodes, MOST_NODES)
        longer = replace(walk, nodes=min(end + 1, MOST_NODES))
        reached = await _asked(STRATEGIES[strategy](self._graph, starts, longer))
        shown = reached[skip:end]
        nodes = {node.id: node for node in await _asked(self._graph.nodes(walk.owner, [each.id for each in shown]))}
        edges = await self._edges(walk, list(nodes), {each.id for each in reached[:skip]})
        return Neighbourhood(
            nodes=[_reached(nodes[each.id], each, walk.owner) for each in shown if each.id in nodes],
            edges=[known_edge(edge) for edge in edges],
            next=str(end) if len(reached) > end else None,
        )

    async def _edges(self, walk: Walk, ids: list[str], earlier: set[str]) -> list[BareEdge]:
        """Return the edges between the nodes of a page, and from them to those of earlier pages."""
        wanted = (walk.types, walk.as_of)
        if not earlier:
            return await _asked(self._graph.between(walk.owner, ids, _MAX_EDGES, *wanted))
        links = await _asked(self._graph.links(walk.owner, ids, _MAX_LINKS, *wanted))
        near = {end for link in links for end in (link.source, link.target)} & earlier
        found = await _asked(self._graph.between(walk.owner, [*ids, *sorted(near)], _MAX_LINKS, *wanted))
        here = set(ids)
        return [edge for edge in found if edge.source in here or edge.target in here][:_MAX_EDGES]


async def _asked(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except MemoryRefusedError as error:
        raise invalid(str(error)) from None


def _told(node: MemoryNode, owner: Owner) -> dict[str, Any]:
    seen = [support for support in node.supports if owner.sees(support.user)]
    return {
        "id": node.id,
        "kind": node.kind.value,
        "text": node.text,
        "user_id": node.owner.user,
        "session_id": node.owner.session,
        "importance": node.importance,
        "learned_at": rfc3339(node.learned_at),
        "true_from": _time(node.true_from),
        "true_until": _time(node.true_until),
        "supported_by": len(seen),
        "supports": [
            SupportingStatement(anchor=each.anchor, task_id=each.task, at=_time(each.at or None))
            for each in seen[: -MOST_SHOWN - 1 : -1]
        ],
        "metadata": metadata_told(node.metadata),
        "source": _source(seen[0]) if seen else None,
    }


def _source(first: Support) -> NodeSource:
    return NodeSource(task_id=first.task, at=_time(first.at or None), by_hand=is_statement(first.task))


def _reached(node: MemoryNode, how: Reached, owner: Owner) -> ReachedNode:
    return ReachedNode(**_told(node, owner), depth=how.depth, cost=round(how.cost, 4), came_from=how.came_from)


def known_edge(edge: BareEdge) -> KnownEdge:
    """Return an edge in the form that clients get."""
    return KnownEdge(
        id=edge_id(edge.owner, edge.source, edge.target, edge.type),
        source=edge.source,
        target=edge.target,
        type=edge.type.value,
        weight=edge.weight,
        user_id=edge.owner.user,
        session_id=edge.owner.session,
        metadata=metadata_told(edge.metadata),
    )


def _time(moment: int | None) -> str | None:
    return None if moment is None else rfc3339(moment)
