"""Nodes of the graph are found by searches: their points, written when something was learned of them."""

from collections.abc import Sequence

from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryNode
from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.memory.node_points import node_point
from pentad.shared.memory.true_times import TrueTimes, times_of
from pentad.shared.owners import Owner
from pentad.shared.vectors.naming import collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_AT_ONCE = 64
"""Nodes that are embedded at once."""
_MOST_EDGES = 1_000
"""Edges of nodes that have an end: of more, the heaviest."""


async def true_times(graph: Graph, nodes: Sequence[MemoryNode]) -> dict[str, TrueTimes]:
    """When each node is true. Raises ``MemoryOutageError``."""
    ends: dict[str, list[int]] = {node.id: [] for node in nodes}
    ended = [node for node in nodes if node.true_until is not None]
    for owner in dict.fromkeys(node.owner for node in ended):
        ids = [node.id for node in ended if node.owner == owner]
        for edge in await graph.edges(owner, ids, _MOST_EDGES):
            if edge.type is EdgeType.CONTRADICTS and edge.target in ends:
                ends[edge.target] += [support.at for support in edge.supports]
    return {node.id: times_of(node, ends[node.id]) for node in nodes}


class KnownPoints:
    """Writes them. Raises ``MemoryOutageError`` while a store is away, ``ModelFailed`` when no vector is to be had."""

    def __init__(self, vectors: Vectors, embedder: Embedder, graph: Graph) -> None:
        self._vectors, self._embedder, self._graph = vectors, embedder, graph

    async def write(self, nodes: Sequence[MemoryNode], session: str, requester: Requester) -> None:
        """Let searches find these nodes as they are now. ``session``: of the newest statement they rest on."""
        for begin in range(0, len(nodes), _AT_ONCE):
            some = nodes[begin : begin + _AT_ONCE]
            found = await self._embedder.embed([node.text for node in some], requester)
            times = await true_times(self._graph, some)
            collection = collection_name(found.model, len(found.vectors[0]))
            await self._vectors.prepare(collection, len(found.vectors[0]))
            made = zip(some, found.vectors, strict=True)
            points = [node_point(node, session, vector, times[node.id]) for node, vector in made]
            await self._vectors.upsert(collection, points)

    async def write_again(self, owner: Owner, ids: Sequence[str], requester: Requester) -> None:
        """The same for nodes of which something was learned elsewhere; what was never searched is not."""
        sessions: dict[str, str] = {}
        for there in await self._vectors.collections():
            if there.name != FORGOTTEN:
                kept = await self._vectors.get(there.name, Selection(owner, Whose.SEEN, ids=tuple(ids)))
                sessions |= {point.id: point.payload.session for point in kept}
        nodes = [node for node in await self._graph.nodes(owner, list(ids)) if node.id in sessions]
        for session in dict.fromkeys(sessions[node.id] for node in nodes):
            await self.write([node for node in nodes if sessions[node.id] == session], session, requester)
