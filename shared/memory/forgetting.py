"""Forgetting: a note is written first, so that nothing is remembered again; then the points and the nodes are removed.

The record stays: to remove the words themselves, their task is erased. What a model had forgotten can be undone for a
day. Until then its ids are kept, without words; the words come back from the records.
"""

from collections.abc import Sequence

from pydantic import ValidationError

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import shard_in
from pentad.contracts.streams import REMEMBER
from pentad.shared import metrics
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.keys import UNDO_S, TaskKeys, undoable
from pentad.shared.memory.forgotten import FORGOTTEN, noted_nodes, noted_segments, write_notes
from pentad.shared.memory.forgotten_notes import NOTE_ADAPTER, ForgottenNote, hand_over
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.owners import Owner
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.points import KeptPoint, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors


async def ask_to_remember(store: Store, keys: TaskKeys) -> None:
    """Ask archivers to remember a task as it is now: its points are rewritten where they differ.

    Safe to repeat. Raises ``OutageError``.
    """
    await store.call("XADD", REMEMBER.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
    metrics.published.labels(REMEMBER.name, WakeUp.__name__).inc()


async def keep_undoable(store: Store, tenant: str, anchor: str, notes: Sequence[Point]) -> None:
    """Store for a day what a model had forgotten at this anchor. Safe to repeat. Raises ``OutageError``."""
    if not notes:
        return
    now, key = await store.clock(), undoable(tenant, anchor)
    fields: list[Argument] = []
    for point in notes:
        fields += [point.id, NOTE_ADAPTER.dump_json(ForgottenNote(KeptPoint(point.id, point.payload), now))]
    await store.calls([("HSET", key, *fields), ("EXPIRE", key, UNDO_S)])


async def read_undoable(store: Store, tenant: str, anchor: str) -> list[ForgottenNote]:
    """Return what can be undone at this anchor. Raises ``OutageError``."""
    found: list[ForgottenNote] = []
    for raw in (await store.call("HGETALL", undoable(tenant, anchor)))[1::2]:
        try:
            found.append(NOTE_ADAPTER.validate_json(raw))
        except ValidationError:
            continue
    return found


async def drop_undoable(store: Store, tenant: str, anchor: str, notes: Sequence[ForgottenNote]) -> None:
    """Delete what was undone. Safe to repeat. Raises ``OutageError``."""
    await store.call("HDEL", undoable(tenant, anchor), *(note.point.id for note in notes))


class Forgetter:
    """Forgets segments and nodes. Safe to repeat. Raises ``OutageError`` while a store is unavailable."""

    def __init__(self, store: Store, vectors: Vectors, graph: Graph, shards: int) -> None:
        self._store, self._vectors, self._graph, self._shards = store, vectors, graph, shards

    async def collections(self) -> list[str]:
        """Return the collections whose points can be forgotten: the memories of all models."""
        return sorted({kept.name for kept in await self._vectors.collections()} - {FORGOTTEN})

    async def found(self, tenant: str, points: Sequence[KeptPoint], undo: str | None = None) -> None:
        """Forget the segments and nodes that points stand for.

        ``undo``: the anchor at which a person can undo it for a day.
        """
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
        """Forget segments. Their tasks are rewritten without them, so their words go from other points too."""
        if not segments:
            return
        await self._note(tenant, noted_segments(segments), undo)
        for task in sorted({segment.payload.task for segment in segments}):
            shard = shard_in(task, self._shards)
            if shard is not None:
                await ask_to_remember(self._store, TaskKeys(shard, tenant, task))
        await self.points(tenant, [segment.id for segment in segments])

    async def nodes(self, tenant: str, nodes: Sequence[MemoryNode], undo: str | None = None) -> None:
        """Forget nodes. The statements that they rest on stay and can be found."""
        if not nodes:
            return
        await self._note(tenant, noted_nodes(nodes), undo)
        await self.points(tenant, [node.id for node in nodes])
        for owner in {node.owner for node in nodes}:
            await self._graph.remove(owner, [node.id for node in nodes if node.owner == owner])

    async def _note(self, tenant: str, notes: Sequence[Point], undo: str | None) -> None:
        """Write the notes: first for undoing, then for the records, which outlive the store of vectors, then to that
        store."""
        if undo is not None:
            await keep_undoable(self._store, tenant, undo, notes)
        await hand_over(self._store, notes)
        await write_notes(self._vectors, notes)

    async def points(self, tenant: str, ids: Sequence[str]) -> None:
        """Remove points, whatever model embedded them."""
        for name in await self.collections():
            await self._vectors.delete(name, Selection(Owner(tenant), Whose.ALL, ids=tuple(ids)))
