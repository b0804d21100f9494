"""Writes one task of a rebuild to the memory, as if the stores had nothing of it."""

from enum import StrEnum

from pentad.contracts.records import TaskRecord
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.erased_memory import Known
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.archiver.remembering import Remembering
from pentad.shared.actors.erased_marks import erased_users, mark_at
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten_notes import notes_of
from pentad.shared.memory.rebuild_progress import Rebuilds
from pentad.shared.memory.statements import STATEMENT_LABEL, is_episode, is_statement, stated_edge, stated_node, told_at
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store


class Rebuilt(StrEnum):
    """The outcome of a task."""

    DONE = "done"
    LEFT_OUT = "left_out"
    """A statement by hand under an earlier version, whose record does not say what was added."""


class RebuildingTasks:
    """Writes tasks. Safe to repeat. All methods raise ``OutageError``, and what a task's own handlers raise."""

    def __init__(
        self,
        store: Store,
        records: Records,
        graph: Graph,
        near: NearNodes,
        ended: EndedTasks,
        remembering: Remembering,
        learning: Learning,
        extracting: Extracting,
    ) -> None:
        self._store, self._records, self._graph, self._near, self._ended = store, records, graph, near, ended
        self._remembering, self._learning, self._extracting = remembering, learning, extracting
        self._rebuilds, self._tenants = Rebuilds(store), TenantMemories(store)

    def begin(self) -> None:
        """Drop all cached knowledge of the stores."""
        self._remembering.begin_rebuild()

    async def said(self, keys: TaskKeys) -> Rebuilt:
        """Write a task from Redis or its record; what rests on other tasks is put off."""
        statement = await self._records.read(keys.tenant, keys.task) if is_statement(keys.task) else None
        if statement is not None and not is_episode(statement):
            return await self._stated(keys, statement)
        await self._remembering.rebuild(keys)
        await self._learning.rebuild(keys)
        return Rebuilt.DONE

    async def recorded(self, keys: TaskKeys) -> Rebuilt:
        """Write a task that has a record; its extraction is put off."""
        record = await self._records.read(keys.tenant, keys.task)
        if record is None:
            return Rebuilt.DONE
        if record.extraction is not None and "problem" not in record.extraction:
            await self._rebuilds.put_off(keys.actor)
        return await self.said(keys)

    async def linked(self, keys: TaskKeys) -> Rebuilt:
        """Write what rests on other tasks. An edge whose end was forgotten is not written."""
        record = await self._records.read(keys.tenant, keys.task)
        if record is not None and (edge := stated_edge(record)) is not None:
            await self._link(keys, record, edge)
        else:
            await self._extracting.rebuild(keys)
        return Rebuilt.DONE

    async def _stated(self, keys: TaskKeys, record: TaskRecord) -> Rebuilt:
        node = stated_node(record)
        if node is not None:
            if not await self._is_gone(keys, record, node):
                await self._write_node(keys, node)
                await self._stay_erased(keys, record)
            return Rebuilt.DONE
        if stated_edge(record) is None:
            return Rebuilt.LEFT_OUT
        await self._rebuilds.put_off(keys.actor)
        return Rebuilt.DONE

    async def _is_gone(self, keys: TaskKeys, record: TaskRecord, node: MemoryNode) -> bool:
        """Whether a person has forgotten or removed the node since it was added last."""
        noted = await notes_of(self._records, keys.tenant, keys.task)
        return any(
            note.point.payload.anchor == node.id and (not note.noted_at or note.noted_at > told_at(record))
            for note in noted
        )

    async def _write_node(self, keys: TaskKeys, node: MemoryNode) -> None:
        await self._graph.upsert_nodes([node])
        await self._tenants.writing(keys.tenant)
        there = [each for each in await self._graph.nodes(node.owner, [node.id]) if each.owner == node.owner]
        await self._near.write_points(keys, STATEMENT_LABEL, there)

    async def _link(self, keys: TaskKeys, record: TaskRecord, edge: MemoryEdge) -> None:
        try:
            await self._graph.upsert_edges([edge])
        except MemoryRefusedError:  # an end is gone, for good or until it is written
            return
        if edge.type is EdgeType.CONTRADICTS:
            await self._graph.end(edge.owner, [edge.target], edge.supports[0].at)
            await self._near.write_again(keys, edge.owner, [edge.target])
        await self._stay_erased(keys, record)

    async def _stay_erased(self, keys: TaskKeys, record: TaskRecord) -> None:
        """Remove what was written if it is erased: whoever erases a statement, or its user, has marked it before."""
        at, user = told_at(record), record.task.user_id
        mark = await mark_at(self._store, keys.erased)
        marks = await erased_users(self._store, keys.shard, keys.tenant, {user} if user else set())
        if (mark is not None and at <= mark.at) or any(at <= until for until in marks.values()):
            await Known(self._graph, self._near).forget_task(keys.tenant, keys.task)
