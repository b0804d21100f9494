"""What is known from a task that has ended: its names and its place in the session, written to the graph."""

import asyncio

from pentad.contracts.streams import LEARN
from pentad.services.archiver.domain import Said
from pentad.services.archiver.ended_tasks import EndedTasks, Remaining, task_named
from pentad.services.archiver.erased_memory import Known
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared import metrics
from pentad.shared.actors.transcript import EXCLUSION
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.graph_of_task import TaskGraph, graph_of_task, task_before
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.work.entry import Entry

_AT_ONCE = 256
"""Nodes or edges of one call to the graph."""


class Learning:
    """At least once: what is written again joins what is there, so a redelivery repairs what a kill left."""

    def __init__(self, ended: EndedTasks, graph: Graph, near: NearNodes) -> None:
        self._ended, self._graph, self._near = ended, graph, near

    async def handle(self, entry: Entry) -> None:
        """Learn from the task that the entry names, as it is now; again when it went on meanwhile.

        A slower writer of an older one writes the newer one behind it.
        """
        keys = task_named(entry, LEARN)
        said = await self._ended.said(keys)
        while said is not None:
            before, remaining = said, await self._ended.remaining(keys, said)
            await self._write(keys, before, remaining)
            said = await self._ended.said(keys)
            if said is not None and said.is_as(before) and await self._ended.remaining(keys, said) == remaining:
                break
        if await self._ended.erased(keys):
            await Known(self._graph, self._near).forget_task(keys.tenant, keys.task)

    async def _write(self, keys: TaskKeys, said: Said, remaining: Remaining) -> None:
        task = remaining.task
        graph = await asyncio.to_thread(graph_of_task, task, task_before(said.messages))
        for begin in range(0, len(graph.nodes), _AT_ONCE):
            await self._graph.upsert_nodes(graph.nodes[begin : begin + _AT_ONCE])
        for begin in range(0, len(graph.edges), _AT_ONCE):
            await self._graph.upsert_edges(graph.edges[begin : begin + _AT_ONCE])
        metrics.learned.labels("node").inc(len(graph.nodes))
        metrics.learned.labels("edge").inc(len(graph.edges))
        if remaining.less or any(message.get("role") == EXCLUSION for message in said.messages):
            # Nothing rests any more on what was moved to another task, forgotten or erased.
            anchors = [anchor_text(segment.anchor) for segment in task.segments]
            await self._graph.retain(said.tenant, said.task, anchors)
            await self._near.write_those_of(keys, said.session, self._graph)
        await self._find_notes(keys, said, graph)

    async def _find_notes(self, keys: TaskKeys, said: Said, graph: TaskGraph) -> None:
        """Names and tasks are found by what was said; what was noted is found by itself."""
        notes: dict[Owner, list[str]] = {}
        for node in graph.nodes:
            if node.kind is NodeKind.FACT:
                notes.setdefault(node.owner, []).append(node.id)
        for owner, ids in notes.items():
            await self._near.write_points(keys, said.session, await self._graph.nodes(owner, ids))
