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
"""What an edge costs beside its weight."""
_LINKS, _LINKS_EACH = 20_000, 50
"""Links of one question to the store, at most, and for each node that the walk may come to: of more, the heaviest. An
answer is read and put in order in the event loop, so a walk to few nodes asks for few, however many lead on there."""
_NODES_PREFETCHED = 32
"""Nodes whose links a walk that goes one by one asks for at once."""


@immutable
class Walk:
    """Where a walk may go. Raises ``MemoryRefusedError`` for more than it may want."""

    owner: Owner
    depth: int = 2
    """Edges from a start at most."""
    nodes: int = 200
    """Nodes at most, the starts among them."""
    types: tuple[EdgeType, ...] = ()
    """None: along all edges."""
    as_of: int | None = None
    """Along what was true at this time, in milliseconds since the epoch; None: along all."""

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= MOST_DEPTH or not 1 <= self.nodes <= MOST_NODES:
            raise MemoryRefusedError(f"a walk goes {MOST_DEPTH} edges far at most, to {MOST_NODES} nodes")


@immutable
class Reached:
    """A node that a walk came to, in the order in which it did."""

    id: str
    depth: int
    """Edges from the start."""
    cost: float
    """Of the way here."""
    came_from: str | None
    """The node before it; None at a start."""
    along: WalkedEdge | None = None
    """The edge from there; None at a start."""
    before: "Reached | None" = None
    """The way there, of which this is the last step."""


Next = tuple[str, float, WalkedEdge]
"""A node, and what the way there costs along which edge."""
Neighbours = Mapping[str, Sequence[Next]]
"""For each node the next ones, the cheapest first."""


def way_of(reached: Reached) -> tuple[WalkedEdge, ...]:
    """The edges along which a node was reached, from it back to its start."""
    way: list[WalkedEdge] = []
    here: Reached | None = reached
    while here is not None and here.along is not None:
        way.append(here.along)
        here = here.before
    return tuple(way)


async def breadth_first(graph: Graph, starts: Sequence[str], walk: Walk) -> list[Reached]:
    """The starts, then all that is one edge away, then two: one question to the store for each depth."""
    found = _begun(starts, walk)
    frontier = list(found.values())
    while frontier and frontier[0].depth < walk.depth and len(found) < walk.nodes:
        around = await _around(graph, [node.id for node in frontier], walk)
        frontier = _next_frontier(frontier, around, found, walk.nodes)
    return list(found.values())


async def depth_first(graph: Graph, starts: Sequence[str], walk: Walk) -> list[Reached]:
    """As far as it may from each start, along the heaviest edge first, before the next edge is tried.

    A node belongs to the first way that comes to it, so one may be missed that a shorter way would have reached.
    """
    known: dict[str, Sequence[Next]] = {}
    found: dict[str, Reached] = {}
    waiting = list(reversed(_begun(starts, walk).values()))
    while waiting and len(found) < walk.nodes:
        here = waiting.pop()
        if here.id in found:
            continue
        found[here.id] = here
        if here.depth == walk.depth:
            continue
        await _learn(graph, known, here.id, [node.id for node in reversed(waiting)], walk)
        waiting += [_step(here, each) for each in reversed(known[here.id]) if each[0] not in found]
    return list(found.values())


async def a_star(
    graph: Graph,
    starts: Sequence[str],
    walk: Walk,
    estimate: Callable[[str], float] = lambda node: 0.0,
    goals: frozenset[str] = frozenset(),
) -> list[Reached]:
    """The cheapest ways, in the order of cost and estimate; ends at the first of ``goals``, where there are any.

    ``estimate``: what the rest of the way costs at least. It must not fall by more than an edge costs along it, or a
    way that is found may not be the cheapest. Of ways within the depth each node has its cheapest, also where a cheaper
    one is longer than the depth allows.
    """
    known: dict[str, Sequence[Next]] = {}
    found: dict[str, Reached] = {}
    shortest: dict[str, int] = {}
    """The fewest edges with which each node was left so far: a dearer way counts only if it is shorter."""
    # Of equal ways to a node the one by the first name: no two are equal in that, too.
    waiting = [(estimate(node.id), node.id, node.depth, "", node) for node in _begun(starts, walk).values()]
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
        await _learn(graph, known, here.id, [node.id for *_, node in heapq.nsmallest(_NODES_PREFETCHED, waiting)], walk)
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
"""The walks by the names that clients call them."""


def _begun(starts: Sequence[str], walk: Walk) -> dict[str, Reached]:
    return {start: Reached(start, 0, 0.0, None) for start in list(dict.fromkeys(starts))[: walk.nodes]}


def _step(here: Reached, ahead: Next) -> Reached:
    there, cost, edge = ahead
    return Reached(there, here.depth + 1, here.cost + cost, here.id, edge, here)


def _next_frontier(
    frontier: Sequence[Reached], around: Neighbours, found: dict[str, Reached], most: int
) -> list[Reached]:
    """The nodes one edge further, added to what was found."""
    fresh: list[Reached] = []
    for here in frontier:
        for each in around[here.id]:
            there = each[0]
            if there not in found and len(found) < most:
                found[there] = _step(here, each)
                fresh.append(found[there])
    return fresh


async def _learn(graph: Graph, known: dict[str, Sequence[Next]], here: str, soon: Sequence[str], walk: Walk) -> None:
    """Know the neighbours of this node, and of those that come soon."""
    if here not in known:
        unknown = [node for node in dict.fromkeys(soon) if node not in known and node != here]
        known |= await _around(graph, [here, *unknown[: _NODES_PREFETCHED - 1]], walk)


async def _around(graph: Graph, ids: Sequence[str], walk: Walk) -> dict[str, Sequence[Next]]:
    limit = min(_LINKS, _LINKS_EACH * walk.nodes)
    links = await graph.links(walk.owner, ids, limit, walk.types, walk.as_of)
    return neighbours_of(ids, links)


def neighbours_of(ids: Sequence[str], links: Sequence[WalkedEdge]) -> dict[str, Sequence[Next]]:
    """The neighbours of these nodes, of several edges between two the cheapest, of equal ones the first. Pure."""
    around: dict[str, dict[str, Next]] = {node: {} for node in ids}
    for link in links:
        cost = 1 - link.weight + _COST_PER_EDGE
        for here, there in ((link.source, link.target), (link.target, link.source)):
            near = around.get(here)
            if near is not None and (there not in near or cost < near[there][1]):
                near[there] = (there, cost, link)
    return {here: sorted(near.values(), key=lambda ahead: (ahead[1], ahead[0])) for here, near in around.items()}
