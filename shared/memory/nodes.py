"""Nodes of the graph as points of the store of vectors, so that searches find them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryNode
from pentad.shared.graph.metadata import metadata_read
from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, CutTask, points_of
from pentad.shared.memory.true_times import TrueTimes, details_of, times_of
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.segment import Segment
from pentad.shared.vectors.points import Detail, KeptPoint, Payload, Point, collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_METADATA_DETAIL = "metadata"
"""Name of the detail of a node's point that has its metadata."""


def metadata_detail(node: MemoryNode) -> dict[str, Detail]:
    """Return the details that store a node's metadata."""
    return {} if node.metadata is None else {_METADATA_DETAIL: node.metadata.json}


def stored_metadata(kept: Payload) -> dict[str, Any]:
    """Return the metadata in the point of a node; empty where there is none. Raises ``DamagedError``."""
    told = kept.details.get(_METADATA_DETAIL)
    return {} if told is None else metadata_read(str(told))


def node_point(node: MemoryNode, session: str, vector: Sequence[float], times: TrueTimes) -> Point:
    """Return the point of a node. ``vector``: of its text; ``session``: of its newest statement.

    Its id is the node's, its anchor the newest statement's. Raises ``BadAnchorError`` for an invalid anchor.
    """
    newest = max(node.supports, key=lambda support: (support.at, support.anchor))
    point = _point(node.id, node.owner, newest.task, session, newest.anchor, node.text, vector)
    payload = replace(
        point.payload,
        kind=NODE_KIND,
        type=node.kind.value,
        at=node.learned_at,
        importance=node.importance,
        details=point.payload.details | details_of(node, times) | metadata_detail(node),
    )
    return replace(point, payload=payload)


def reembedded_node_point(kept: KeptPoint, vector: Sequence[float]) -> Point:
    """Return the point of a node for another model. ``kept``: the node's point of the earlier model."""
    said = kept.payload
    return replace(_point(kept.id, said.owner, said.task, said.session, said.anchor, said.text, vector), payload=said)


def _point(name: str, owner: Owner, task: str, session: str, anchor: str, text: str, vector: Sequence[float]) -> Point:
    said = Segment(name, anchor_of(anchor), text, owner.user or "user", owner.holder)
    made = points_of(CutTask(owner.tenant, task, session, [said]), [vector])
    [point] = [each for each in made if each.payload.kind == SEGMENT_KIND]
    return point


_NODES_PER_BATCH = 64
"""Nodes that are embedded at once."""
_MOST_EDGES = 1_000
"""Edges that are read of nodes with an end: of more, the heaviest."""


async def true_times(graph: Graph, nodes: Sequence[MemoryNode]) -> dict[str, TrueTimes]:
    """Return when each node is true. Raises ``MemoryOutageError``."""
    ends: dict[str, list[int]] = {node.id: [] for node in nodes}
    ended = [node for node in nodes if node.true_until is not None]
    for owner in dict.fromkeys(node.owner for node in ended):
        ids = [node.id for node in ended if node.owner == owner]
        for edge in await graph.edges(owner, ids, _MOST_EDGES):
            if edge.type is EdgeType.CONTRADICTS and edge.target in ends:
                ends[edge.target] += [support.at for support in edge.supports]
    return {node.id: times_of(node, ends[node.id]) for node in nodes}


class NodePointWriter:
    """Writes the points of nodes. Raises ``MemoryOutageError``; ``ModelFailed`` while the model is unavailable."""

    def __init__(self, vectors: Vectors, embedder: Embedder, graph: Graph) -> None:
        self._vectors, self._embedder, self._graph = vectors, embedder, graph

    async def write(self, nodes: Sequence[MemoryNode], session: str, requester: Requester) -> None:
        """Write the points of nodes as they are now. ``session``: of the newest statement that they rest on."""
        for begin in range(0, len(nodes), _NODES_PER_BATCH):
            some = nodes[begin : begin + _NODES_PER_BATCH]
            found = await self._embedder.embed([node.text for node in some], requester)
            times = await true_times(self._graph, some)
            collection = collection_name(found.model, len(found.vectors[0]))
            await self._vectors.prepare(collection, len(found.vectors[0]))
            made = zip(some, found.vectors, strict=True)
            points = [node_point(node, session, vector, times[node.id]) for node, vector in made]
            await self._vectors.upsert(collection, points)

    async def write_again(self, owner: Owner, ids: Sequence[str], requester: Requester) -> None:
        """Rewrite the points of nodes that have points, after something was learned of them elsewhere."""
        sessions: dict[str, str] = {}
        for there in await self._vectors.collections():
            if there.name != FORGOTTEN:
                kept = await self._vectors.get(there.name, Selection(owner, Whose.SEEN, ids=tuple(ids)))
                sessions |= {point.id: point.payload.session for point in kept}
        nodes = [node for node in await self._graph.nodes(owner, list(ids)) if node.id in sessions]
        for session in dict.fromkeys(sessions[node.id] for node in nodes):
            await self.write([node for node in nodes if sessions[node.id] == session], session, requester)
