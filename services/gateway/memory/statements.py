"""Memories that clients add by hand, each with a stored statement: nodes and edges of the graph, and episodes."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from pentad.contracts.ids import rfc3339, shard_of
from pentad.contracts.memories import KeptEpisode, KnownEdge, KnownNode
from pentad.contracts.records import TaskRecord
from pentad.services.gateway.domain.additions import EdgeAddition, NodeAddition
from pentad.services.gateway.domain.episode import EpisodeToKeep
from pentad.services.gateway.edge.problems import busy, invalid
from pentad.services.gateway.memory.knowledge import Knowledge, known_edge
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Metadata
from pentad.shared.graph.merging import node_id, without_supports
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgetting import ask_to_remember
from pentad.shared.memory.forgotten import node_note_id, noted_nodes, remove_notes
from pentad.shared.memory.forgotten_notes import hand_over
from pentad.shared.memory.nodes import NodePointWriter
from pentad.shared.memory.statements import (
    STATEMENT_LABEL,
    episode_about,
    stated_node,
    statement,
    statement_id,
    supports_of,
    with_edge,
    with_node,
)
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection
from pentad.shared.vectors.vector_store import Vectors

T = TypeVar("T")

_MAX_EDGES_BETWEEN = 4
"""Edges of one type between two nodes that an owner sees: own and shared ones, in both directions."""


class KnowledgeEdits:
    """Writes the statement, then the graph, then the search index: a repeated request completes an interrupted one.

    Methods raise ``OutageError`` if a store is unavailable, and ``ProblemError``.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        graph: Graph,
        vectors: Vectors,
        embedder: Embedder,
        knowledge: Knowledge,
        shards: int,
    ) -> None:
        self._store, self._records, self._graph, self._shards = store, records, graph, shards
        self._vectors, self._knowledge = vectors, knowledge
        self._points = NodePointWriter(vectors, embedder, graph)
        self._told = TenantMemories(store)

    async def add_node(self, tenant: str, asked: NodeAddition) -> KnownNode:
        """Add a node: something that a person knows. The same text gives the same node."""
        owner = Owner(tenant, asked.user)
        name = node_id(owner, asked.kind, asked.text)
        record = await self._stated(owner, name, asked.text)
        supports = supports_of(record)
        node = MemoryNode(
            id=name,
            owner=owner,
            kind=asked.kind,
            text=asked.text,
            importance=asked.importance,
            learned_at=supports[0].at,
            supports=supports,
            true_from=asked.true_from,
            true_until=asked.true_until,
            metadata=await self._metadata(asked.metadata),
        )
        await self._records.write(with_node(record, node, await self._store.clock()))
        await self._is_known_again(owner, record.task.task_id, name)
        await _done(self._graph.upsert_nodes([node]))
        await self._told.writing(tenant)
        known = await self._graph.nodes(owner, [name])
        await self._find(self._points.write(known, STATEMENT_LABEL, self._requester(owner)))
        _check_kept(node.metadata, known)
        return await self._knowledge.node(owner, name)

    async def add_edge(self, tenant: str, asked: EdgeAddition) -> KnownEdge:
        """Add an edge between two nodes. A node that is contradicted is no longer true from now on."""
        owner = Owner(tenant, asked.user)
        source, target = [await self._knowledge.node(owner, name) for name in (asked.source, asked.target)]
        text = asked.text or f"{source.text}\n{asked.type.value}\n{target.text}"
        record = await self._stated(owner, f"{asked.source} {asked.type} {asked.target}", text)
        supports = supports_of(record)
        what = asked.source, asked.target, asked.type, asked.weight
        metadata = await self._metadata(asked.metadata)
        edge = MemoryEdge(owner, *what, learned_at=supports[0].at, supports=supports, metadata=metadata)
        await self._records.write(with_edge(record, edge, await self._store.clock()))
        await _done(self._graph.upsert_edges([edge]))
        if asked.type is EdgeType.CONTRADICTS:
            await _done(self._graph.end(owner, [asked.target], supports[0].at))
            await self._find(self._points.write_again(owner, [asked.target], self._requester(owner)))
        ends = [asked.source, asked.target]
        there = await _done(self._graph.between(owner, ends, _MAX_EDGES_BETWEEN, [asked.type]))
        kept = [each for each in there if each.owner == owner and each.source == asked.source]
        _check_kept(edge.metadata, kept)
        return known_edge(kept[0] if kept else without_supports(edge))

    async def remove_node(self, owner: Owner, name: str) -> None:
        """Remove a node with its edges; its statements stay. A rebuild of the memory does not bring it back."""
        await self._knowledge.node(owner, name)
        await hand_over(self._store, noted_nodes(await self._graph.nodes(owner, [name])))
        for there in await self._vectors.collections():
            await _done(self._vectors.delete(there.name, Selection(owner, ids=(name,))))
        await _done(self._graph.remove(owner, [name]))

    async def write_again(self, record: TaskRecord) -> None:
        """Write the node of a statement again, which was forgotten."""
        node = stated_node(record)
        if node is not None:
            await _done(self._graph.upsert_nodes([node]))
            known = await self._graph.nodes(node.owner, [node.id])
            await self._find(self._points.write(known, STATEMENT_LABEL, self._requester(node.owner)))

    async def _is_known_again(self, owner: Owner, task: str, name: str) -> None:
        """Remove the note that a node of this statement was forgotten, because it is added again."""
        await remove_notes(self._vectors, owner.tenant, [node_note_id(owner, task, name)])

    async def _stated(self, owner: Owner, about: str, text: str) -> TaskRecord:
        """Return the statement for a node or edge, made if it does not exist."""
        name = statement_id(self._shard(owner), owner, about, text)
        record = await self._records.read(owner.tenant, name)
        return record or statement(name, owner, text, rfc3339(await self._store.clock()))

    async def _find(self, writing: Awaitable[None]) -> None:
        try:
            await _done(writing)
        except ModelFailed as error:
            raise busy(f"it is kept, and searches do not know it yet: {error}: say it again", outage=True) from None

    async def _metadata(self, text: str | None) -> Metadata | None:
        """Return metadata with the present time; None if there is none."""
        return None if text is None else Metadata(text, await self._store.clock())

    def _requester(self, owner: Owner) -> Requester:
        return Requester(self._shard(owner), owner.tenant, STATEMENT_LABEL, cached_for=owner.holder or TENANT_HOLDER)

    def _shard(self, owner: Owner) -> int:
        return shard_of(owner.tenant, STATEMENT_LABEL, self._shards)


def _check_kept(told: Metadata | None, kept: Sequence[MemoryNode | BareEdge]) -> None:
    """Raise ``ProblemError`` if the graph has not stored the metadata or newer one."""
    if told is not None and any(each.metadata is None or each.metadata.at < told.at for each in kept):
        raise busy(
            "it is kept without its metadata, which the archiver does not know yet: say it again when all archivers "
            "are of this version",
            outage=True,
        )


async def _done(work: Awaitable[T]) -> T:
    try:
        return await work
    except MemoryRefusedError as error:
        raise invalid(str(error)) from None


class Episodes:
    """Writes the record of an episode, then has it remembered: a repeated request completes an interrupted one.

    Raises ``OutageError``, and ``ProblemError`` for an episode that was erased.
    """

    def __init__(self, store: Store, records: Records, shards: int) -> None:
        self._store, self._records, self._shards = store, records, shards

    async def keep(self, tenant: str, asked: EpisodeToKeep) -> KeptEpisode:
        """Store an episode, which is found a moment later. The same text and time give the same episode."""
        owner, now = Owner(tenant, asked.user), rfc3339(await self._store.clock())
        at = asked.at or now
        shard = shard_of(tenant, STATEMENT_LABEL, self._shards)
        keys = TaskKeys(shard, tenant, statement_id(shard, owner, episode_about(at), asked.text))
        if await is_erased(self._store, keys):
            raise invalid("at: this was said at that time, and was erased; say it at another time, or without one")
        record = await self._records.read(tenant, keys.task)
        if record is None:
            record = statement(keys.task, owner, asked.text, at, now)
            await self._records.write(record)
        await ask_to_remember(self._store, keys)
        return KeptEpisode(task_id=keys.task, anchor=supports_of(record)[0].anchor, at=at)
