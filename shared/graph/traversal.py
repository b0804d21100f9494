"""Walks through the graph from some nodes: breadth first, depth first, and along the heaviest edges first (A*).

One code for every store: each step asks for the links of the nodes that it leaves. Edges are walked in both directions;
an edge costs ``1 - weight`` and a little, so that of equal ways the shorter one is cheaper. The same graph is walked in
the same order in every store.
"""

import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, WalkedEdge
from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner

MOST_DEPTH = 6
MOST_NODES = 5000
_COST_PER_EDGE = 0.01
"""Cost of an edge beside its weight."""
_LINKS, _LINKS_EACH = 20_000, 50
"""Most links of one question to the store: at most, and for each node that the walk may reach; of more, the heaviest.

An answer is read and sorted in the event loop, so a walk to few nodes asks for few links.
"""
_NODES_PREFETCHED = 32
"""Nodes whose links a walk that goes node by node asks for at once."""


@immutable
class Walk:
    """The bounds of a walk. Raises ``MemoryRefusedError`` for bounds that are too large."""

    owner: Owner
    depth: int = 2
    """Edges from a start, at most."""
    nodes: int = 200
    """Nodes, at most, the starts included."""
    types: tuple[EdgeType, ...] = ()
    """Types of edges to follow; empty: all."""
    as_of: int | None = None
    """Time at which edges must have been true, in milliseconds since the epoch; None: follow all."""

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= MOST_DEPTH or not 1 <= self.nodes <= MOST_NODES:
            raise MemoryRefusedError(f"a walk goes {MOST_DEPTH} edges far at most, to {MOST_NODES} nodes")


@immutable
class Reached:
    """A node that a walk reached, in the order in which it did."""

    id: str
    depth: int
    """Edges from the start."""
    cost: float
    """Cost of the path from the start."""
    came_from: str | None
    """Id of the node before it; None at a start."""
    along: WalkedEdge | None = None
    """The edge from that node; None at a start."""
    before: "Reached | None" = None
    """The path to that node; this is the next step."""


Next = tuple[str, float, WalkedEdge]
"""A neighbour, with the cost and the edge to it."""
Neighbours = Mapping[str, Sequence[Next]]
"""Neighbours by node, the cheapest first."""


def path_to(reached: Reached) -> tuple[WalkedEdge, ...]:
    """Return the edges along which a node was reached, from it back to its start."""
    way: list[WalkedEdge] = []
    here: Reached | None = reached
    while here is not None and here.along is not None:
        way.append(here.along)
        here = here.before
    return tuple(way)


async def breadth_first(graph: Graph, starts: Sequence[str], walk: Walk) -> list[Reached]:
    """Visit the starts, then all nodes one edge away, then two; the store is asked once for each depth."""
    found = _starting_nodes(starts, walk)
    frontier = list(found.values())
    while frontier and frontier[0].depth < walk.depth and len(found) < walk.nodes:
        around = await _neighbours_from(graph, [node.id for node in frontier], walk)
        frontier = _next_frontier(frontier, around, found, walk.nodes)
    return list(found.values())


async def depth_first(graph: Graph, starts: Sequence[str], walk: Walk) -> list[Reached]:
    """Go as deep as allowed from each start, along the heaviest edge first, before the next edge is tried.

    A node belongs to the first path that reaches it, so a node may be missed that a shorter path would have reached.
    """
    known: dict[str, Sequence[Next]] = {}
    found: dict[str, Reached] = {}
    waiting = list(reversed(_starting_nodes(starts, walk).values()))
    while waiting and len(found) < walk.nodes:
        here = waiting.pop()
        if here.id in found:
            continue
        found[here.id] = here
        if here.depth == walk.depth:
            continue
        await _fetch_neighbours(graph, known, here.id, [node.id for node in reversed(waiting)], walk)
        waiting += [_step(here, each) for each in reversed(known[here.id]) if each[0] not in found]
    return list(found.values())


async def a_star(
    graph: Graph,
    starts: Sequence[str],
    walk: Walk,
    estimate: Callable[[str], float] = lambda node: 0.0,
    goals: frozenset[str] = frozenset(),
) -> list[Reached]:
    """Visit nodes in the order of cost plus estimate; stop at the first of ``goals``, where there are any.

    ``estimate`` is a lower bound of the remaining cost. Along an edge it must not fall by more than the edge costs, or
    a path that is found may not be the cheapest. Each node has its cheapest path within the depth, also where a cheaper
    one is longer than the depth allows.
    """
    known: dict[str, Sequence[Next]] = {}
    found: dict[str, Reached] = {}
    shortest: dict[str, int] = {}
    """The fewest edges with which each node was left so far: a costlier path counts only if it is shorter."""
    # Of equal ways to a node the one by the first name: no two are equal in that, too.
    waiting = [(estimate(node.id), node.id, node.depth, "", node) for node in _starting_nodes(starts, walk).values()]
    heapq.heapify(waiting)
    while waiting and len(found) < walk.nodes:
        *_, here = heapq.heappop(waiting)
        if here.depth >= shortest.get(here.id, walk.depth + 1):
            continue
        shortest[here.id] = here.depth
        found.setdefault(here.id, here)
        if here.id in goals:
            break
        if here.depth == walk.depth:
            continue
        await _fetch_neighbours(
            graph, known, here.id, [node.id for *_, node in heapq.nsmallest(_NODES_PREFETCHED, waiting)], walk
        )
        for each in known[here.id]:
            there = each[0]
            if here.depth + 1 < shortest.get(there, walk.depth + 1):
                way = _step(here, each)
                heapq.heappush(waiting, (way.cost + estimate(there), there, way.depth, here.id, way))
    return list(found.values())


STRATEGIES: Mapping[str, Callable[[Graph, Sequence[str], Walk], Awaitable[list[Reached]]]] = {
    "bfs": breadth_first,
    "dfs": depth_first,
    "astar": a_star,
}
"""The walks by the names that clients use."""


def _starting_nodes(starts: Sequence[str], walk: Walk) -> dict[str, Reached]:
    return {start: Reached(start, 0, 0.0, None) for start in list(dict.fromkeys(starts))[: walk.nodes]}


def _step(here: Reached, ahead: Next) -> Reached:
    there, cost, edge = ahead
    return Reached(there, here.depth + 1, here.cost + cost, here.id, edge, here)


def _next_frontier(
    frontier: Sequence[Reached], around: Neighbours, found: dict[str, Reached], most: int
) -> list[Reached]:
    """Return the nodes one edge further, and add them to ``found``."""
    fresh: list[Reached] = []
    for here in frontier:
        for each in around[here.id]:
            there = each[0]
            if there not in found and len(found) < most:
                found[there] = _step(here, each)
                fresh.append(found[there])
    return fresh


async def _fetch_neighbours(
    graph: Graph, known: dict[str, Sequence[Next]], here: str, soon: Sequence[str], walk: Walk
) -> None:
    """Ask for the neighbours of this node, and of those that come soon."""
    if here not in known:
        unknown = [node for node in dict.fromkeys(soon) if node not in known and node != here]
        known |= await _neighbours_from(graph, [here, *unknown[: _NODES_PREFETCHED - 1]], walk)


async def _neighbours_from(graph: Graph, ids: Sequence[str], walk: Walk) -> dict[str, Sequence[Next]]:
    limit = min(_LINKS, _LINKS_EACH * walk.nodes)
    links = await graph.links(walk.owner, ids, limit, walk.types, walk.as_of)
    return neighbours_of(ids, links)


def neighbours_of(ids: Sequence[str], links: Sequence[WalkedEdge]) -> dict[str, Sequence[Next]]:
    """Return the neighbours of these nodes; of several edges between two the cheapest, then the first. Pure."""
    around: dict[str, dict[str, Next]] = {node: {} for node in ids}
    for link in links:
        cost = 1 - link.weight + _COST_PER_EDGE
        for here, there in ((link.source, link.target), (link.target, link.source)):
            near = around.get(here)
            if near is not None and (there not in near or cost < near[there][1]):
                near[there] = (there, cost, link)
    return {here: sorted(near.values(), key=lambda ahead: (ahead[1], ahead[0])) for here, near in around.items()}
