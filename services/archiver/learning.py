"""Learning: names, facts and the place of an ended task are written to the graph, without a model.

Facts that people state are left to a model where one will be asked (`extracting.py`)."""

import asyncio
from collections.abc import Iterator, Sequence

from pentad.contracts.streams import LEARN
from pentad.services.archiver.domain import EndedTask
from pentad.services.archiver.ended_tasks import EndedTasks, ReadTask, RecentTasks, task_named
from pentad.services.archiver.erased_memory import Known
from pentad.services.archiver.extraction_model import ExtractionModel
from pentad.services.archiver.near_nodes import NearNodes, consolidate
from pentad.shared import metrics
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.event_loop import GroupedCalls
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction import facts_by_rule
from pentad.shared.memory.facts import SEARCHED_IMPORTANCE
from pentad.shared.memory.increments import Learned, learned_count, learned_from
from pentad.shared.memory.points import CutTask
from pentad.shared.memory.statements import is_statement
from pentad.shared.memory.task_graph import FactRule, TaskGraph, no_fact, task_before, task_graph, without_nodes
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.work.entry import Entry

_WRITES_PER_CALL = 256
"""Nodes or edges of one call to the graph."""
_LEARN_INLINE_SEGMENTS = 64
"""New segments of a task that are learned from in the event loop; more in a thread."""
_MOST_LEARNED = 10_000
"""Tasks of which it is remembered what the graph has: some 300 bytes each."""


class Learning:
    """Learns at least once, and only what is new: what is written again is merged with what exists.

    A redelivery writes the whole task again, and so repairs what a kill left.
    """

    def __init__(self, ended: EndedTasks, graph: Graph, near: NearNodes, model: ExtractionModel | None = None) -> None:
        """Make the handler. ``model``: the model that is asked about archived tasks, to which the facts that people
        state are left while it is there; None where none is asked."""
        self._ended, self._graph, self._near, self._model = ended, graph, near, model
        self._written = GroupedCalls(self._write_graphs, _WRITES_PER_CALL, weight=_size_of, refusal=MemoryRefusedError)
        self._learned: RecentTasks[Learned] = RecentTasks(_MOST_LEARNED)
        """The part of each task that is in the graph; none of a task that is being handled, or failed last."""

    async def handle(self, entry: Entry) -> None:
        """Learn from the task that the entry names, as it is now; again when it went on meanwhile.

        A slower writer of an older version of the task writes the newer one after it. The task was usually read just
        before, to be remembered; changes since then are found after the write.
        """
        keys = task_named(entry, LEARN)
        learned = self._learned.pop(keys.actor)
        task = self._ended.last(keys)
        if entry.redelivered:
            task = learned = None
        if task is None or not task.has_ended:
            task = await self._ended.read(keys)
        await self._learn(keys, task, learned, asked_later=not is_statement(keys.task))

    async def rebuild(self, keys: TaskKeys) -> None:
        """Write all that is known from a task, whatever the graph has of it; of an archived one also the facts that no
        model has said."""
        self._learned.pop(keys.actor)
        await self._learn(keys, await self._ended.read(keys), None, asked_later=False)

    async def _learn(
        self, keys: TaskKeys, task: ReadTask | None, learned: Learned | None, *, asked_later: bool
    ) -> None:
        """Write a task until it is written as it is now. ``learned``: what of it is in the graph already.

        ``asked_later``: a model may be asked about the task after this, even if it is archived.
        """
        left = task if task is not None and task.has_ended else None
        while left is not None:
            facts = await self._facts_of(left, asked_later or left.so_far is not None)
            await self._write(keys, left, learned, facts)
            learned = learned_from(left.remaining.task, left.remaining.gone)
            task = await self._ended.read(keys)
            left = task if _needs_rewrite(task, left) else None
        if task.is_erased if task is not None else await self._ended.erased(keys):
            await Known(self._graph, self._near).forget_task(keys.tenant, keys.task)
        elif learned is not None:
            self._learned.put(keys.actor, learned)

    async def _facts_of(self, read: ReadTask, asked_later: bool) -> FactRule:
        """Return which facts are found by rule now: the others a model has said, or they are left to one. `Extracting`
        finds by rule what was left and is not asked after all."""
        if read.extraction is None and asked_later and self._model is not None and await self._model.wanted():
            return no_fact
        return facts_by_rule(read.extraction)

    async def _write(self, keys: TaskKeys, read: ReadTask, learned: Learned | None, facts: FactRule) -> None:
        """Write a task to the graph. ``learned``: what of it is in the graph already."""
        said, remaining = read.said, read.remaining
        task, before = remaining.task, task_before(said.messages)
        known = learned_count(task, remaining.gone, learned)
        whole = await self._graph_of(task, before, known, facts)
        graph = without_nodes(whole, remaining.gone)
        try:
            await self._put(graph)
        except MemoryRefusedError:
            if not known:
                raise
            known = 0  # somebody has removed from the graph what was there
            whole = await self._graph_of(task, before, known, facts)
            graph = without_nodes(whole, remaining.gone)
            await self._put(graph)
        if len(graph.nodes) < len(whole.nodes):
            forgotten = [node for node in whole.nodes if node.id in remaining.gone]
            await Known(self._graph, self._near).stay_forgotten(keys, forgotten)
        if remaining.gone and not known:
            # Nothing rests any more on what was moved to another task, forgotten or erased.
            anchors = [anchor_text(segment.anchor) for segment in task.segments]
            await self._graph.retain(said.tenant, said.task, anchors)
            await self._near.write_those_of(keys, said.session, self._graph)
        await self._find_facts(keys, said, graph)

    async def _graph_of(self, task: CutTask, before: str, known: int, facts: FactRule) -> TaskGraph:
        if len(task.segments) - known < _LEARN_INLINE_SEGMENTS:
            return task_graph(task, before, known, facts)
        return await asyncio.to_thread(task_graph, task, before, known, facts)

    async def _put(self, graph: TaskGraph) -> None:
        """Write what a task adds to the graph, a part at a time, together with what other tasks add."""
        for part in _parts_of(graph):
            await self._written.call(part)
        metrics.learned.labels("node").inc(len(graph.nodes))
        metrics.learned.labels("edge").inc(len(graph.edges))

    async def _write_graphs(self, graphs: Sequence[TaskGraph]) -> list[None]:
        """Write what several tasks add, all nodes before the edges between them."""
        nodes: dict[str, list[MemoryNode]] = {}
        edges: dict[str, list[MemoryEdge]] = {}
        for graph in graphs:
            for node in graph.nodes:
                nodes.setdefault(node.owner.tenant, []).append(node)
            for edge in graph.edges:
                edges.setdefault(edge.owner.tenant, []).append(edge)
        for theirs in nodes.values():
            await self._graph.upsert_nodes(theirs)
        for between in edges.values():
            await self._graph.upsert_edges(between)
        return [None] * len(graphs)

    async def _find_facts(self, keys: TaskKeys, said: EndedTask, graph: TaskGraph) -> None:
        """Write points of facts that matter enough: names and tasks are found by what was said."""
        facts: dict[Owner, list[MemoryNode]] = {}
        for node in graph.nodes:
            if node.kind is NodeKind.FACT:
                facts.setdefault(node.owner, []).append(node)
        for owner, written in facts.items():
            there = await consolidate(self._graph, owner, written)
            entered = [node for node in there if node.importance >= SEARCHED_IMPORTANCE]
            await self._near.write_points(keys, said.session, entered)


def _parts_of(graph: TaskGraph) -> Iterator[TaskGraph]:
    """Yield a graph in parts that can be written at once, nodes before the edges between them."""
    if _size_of(graph) <= _WRITES_PER_CALL:
        yield graph
        return
    for begin in range(0, len(graph.nodes), _WRITES_PER_CALL):
        yield TaskGraph(graph.nodes[begin : begin + _WRITES_PER_CALL], [])
    for begin in range(0, len(graph.edges), _WRITES_PER_CALL):
        yield TaskGraph([], graph.edges[begin : begin + _WRITES_PER_CALL])


def _size_of(graph: TaskGraph) -> int:
    return len(graph.nodes) + len(graph.edges)


def _needs_rewrite(task: ReadTask | None, written: ReadTask) -> bool:
    """Whether a task must be written again. One that was reopened is written at its next end, unless something is
    removed."""
    if task is None or task.is_as(written):
        return False
    return task.has_ended or task.remaining.gone != written.remaining.gone
