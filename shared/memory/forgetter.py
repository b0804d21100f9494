"""Forgets: what is noted first is not written again, then it goes from every collection, and from the graph.

The record stays: to remove the words themselves, their task is erased.
"""

from collections.abc import Sequence

from pentad.contracts.ids import shard_in
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN, noted_nodes, noted_segments, write_notes
from pentad.shared.memory.forgotten_notes import hand_over
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.remember_again import ask_to_remember
from pentad.shared.memory.undoable import keep_undoable
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import KeptPoint, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors


class Forgetter:
    """Safe to repeat. Raises ``OutageError`` while a store is away: asked again, it goes on."""

    def __init__(self, store: Store, vectors: Vectors, graph: Graph, shards: int) -> None:
        self._store, self._vectors, self._graph, self._shards = store, vectors, graph, shards

    async def collections(self) -> list[str]:
        """What has points that may be forgotten: all models' memories."""
        return sorted({kept.name for kept in await self._vectors.collections()} - {FORGOTTEN})

    async def found(self, tenant: str, points: Sequence[KeptPoint], undo: str | None = None) -> None:
        """What points stand for, whichever it is. ``undo``: the anchor at which a person can undo it for a day."""
        await self.segments(tenant, [point for point in points if point.payload.kind == SEGMENT_KIND], undo)
        known = [point for point in points if point.payload.kind == NODE_KIND]
        await self.nodes(tenant, await self._nodes_of(known), undo)
        if known:  # also of what is not in the graph any more
            await self.points(tenant, [point.id for point in known])

    async def _nodes_of(self, points: Sequence[KeptPoint]) -> list[MemoryNode]:
        nodes: list[MemoryNode] = []
        for owner in {point.payload.owner for point in points}:
            ids = [point.id for point in points if point.payload.owner == owner]
            nodes += [node for node in await self._graph.nodes(owner, ids) if node.owner == owner]
        return nodes

    async def segments(self, tenant: str, segments: Sequence[KeptPoint], undo: str | None = None) -> None:
        """What was said. Its tasks are written anew without it: its words go from their other points too."""
        if not segments:
            return
        await self._note(tenant, noted_segments(segments), undo)
        for task in sorted({segment.payload.task for segment in segments}):
            shard = shard_in(task, self._shards)
            if shard is not None:
                await ask_to_remember(self._store, TaskKeys(shard, tenant, task))
        await self.points(tenant, [segment.id for segment in segments])

    async def nodes(self, tenant: str, nodes: Sequence[MemoryNode], undo: str | None = None) -> None:
        """What is known. The statements that it rests on stay, and what they say may be found as it was said."""
        if not nodes:
            return
        await self._note(tenant, noted_nodes(nodes), undo)
        await self.points(tenant, [node.id for node in nodes])
        for owner in {node.owner for node in nodes}:
            await self._graph.remove(owner, [node.id for node in nodes if node.owner == owner])

    async def _note(self, tenant: str, notes: Sequence[Point], undo: str | None) -> None:
        """Where it is undone, where it outlives the memory's store, then there."""
        if undo is not None:
            await keep_undoable(self._store, tenant, undo, notes)
        await hand_over(self._store, notes)
        await write_notes(self._vectors, notes)

    async def points(self, tenant: str, ids: Sequence[str]) -> None:
        """Remove points, whatever model embedded them."""
        for name in await self.collections():
            await self._vectors.delete(name, Selection(Owner(tenant), Whose.ALL, ids=tuple(ids)))
