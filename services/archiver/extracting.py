"""Extraction: a model is asked once about each archived task; its answer goes to the record, then to the graph.

Short tasks of one owner share a question. A task that no model is asked about, or whose answer cannot be used, has its
facts by rule.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pentad.contracts.ids import ANY_SHARD, shard_in
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import EXTRACT
from pentad.services.archiver.domain import ended_task_of_record
from pentad.services.archiver.ended_tasks import EndedTasks, RecentTasks, Remaining, task_named
from pentad.services.archiver.erased_memory import Known
from pentad.services.archiver.extraction_model import ExtractionModel, RefusedModelError
from pentad.services.archiver.handlers import NO_MODEL
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes, consolidate
from pentad.shared import metrics
from pentad.shared.event_loop import CallsByKey, GroupedCalls
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryEdge
from pentad.shared.immutable import immutable
from pentad.shared.instructions.json_answers import UnusableAnswerError
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction import (
    Extracted,
    NearNode,
    StoredAnswer,
    extracted,
    facts_by_rule,
    segments_shown,
    without_forgotten,
)
from pentad.shared.memory.extraction_groups import (
    LONG_WEIGHT,
    MOST_WEIGHT,
    EarlierNode,
    answer_part,
    near_to_all,
    unsupported,
    weight_of,
)
from pentad.shared.memory.points import CutTask, cut_task
from pentad.shared.memory.task_graph import FactRule, ruled_facts
from pentad.shared.models.ports import ModelCutOff
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import Segment
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry

GATHER_S = 5.0
"""Seconds for which a task waits for others of its owner, to be asked about with them: nobody waits for it."""
_MOST_UNSAVED = 256
"""Answers that wait for the record store: more than can be in progress at once."""


@immutable
class AskedTask:
    """An archived task that a model is to be asked about."""

    keys: TaskKeys
    record: TaskRecord
    task: CutTask
    """The task without what is forgotten and erased."""
    segments: list[Segment]
    """The segments that the model is shown."""
    near: list[NearNode]

    @property
    def weight(self) -> int:
        """The weight of the task in a question."""
        return weight_of(self.segments)

    @property
    def owner(self) -> Owner | None:
        """The one owner of all that the model is shown; None: there are several."""
        holders = {segment.holder for segment in self.segments}
        return Owner.of_holder(self.keys.tenant, holders.pop()) if len(holders) == 1 else None


class Extracting:
    """Extracts at least once: the answer is stored before the first write, so a redelivery writes the same and asks
    nobody."""

    def __init__(
        self,
        store: Store,
        records: Records,
        ended: EndedTasks,
        graph: Graph,
        near: NearNodes,
        learning: Learning,
        model: ExtractionModel | None,
        gather_s: float = GATHER_S,
    ) -> None:
        """Make the handler. ``learning`` finds by rule what no model has said. ``model``: None where none is to be
        asked; stored answers are written all the same."""
        self._store, self._records, self._ended, self._graph = store, records, ended, graph
        self._near, self._learning, self._model, self._gather_s = near, learning, model, gather_s
        self._asking: CallsByKey[Owner, AskedTask, StoredAnswer | None] = CallsByKey(self._questions)
        self._cut: RecentTasks[bool] = RecentTasks(_MOST_UNSAVED)
        """Tasks whose answer was cut off when they were asked about alone."""
        self._unkept: RecentTasks[StoredAnswer] = RecentTasks(_MOST_UNSAVED)
        """Answers whose records could not be written yet: the model is not asked again for them."""

    async def handle(self, entry: Entry) -> None:
        """Extract from the task that the entry names, if it is archived."""
        keys = task_named(entry, EXTRACT)
        record = await self._records.read(keys.tenant, keys.task)
        if record is None:
            self._unkept.pop(keys.actor)
            await self._stay_erased(keys)
            return
        await self._extract(keys, record)

    async def rebuild(self, keys: TaskKeys, *, with_earlier: bool = True) -> None:
        """Write a model's stored answer about this task again; nobody is asked.

        ``with_earlier``: the tasks whose nodes its edges need are written before it, if they are not yet.
        """
        record = await self._records.read(keys.tenant, keys.task)
        if record is not None and record.extraction is not None and "problem" not in record.extraction:
            answer = record.extraction if with_earlier else {**record.extraction, "after": ()}
            await self._write_answer(keys, record, answer)
            await self._stay_erased(keys)

    async def _extract(self, keys: TaskKeys, record: TaskRecord) -> None:
        answer = record.extraction or await self._answer(keys, record)
        if answer is not None and "problem" not in answer:
            await self._write_answer(keys, record, answer)
        await self._find_by_rule(keys, record, answer)
        await self._stay_erased(keys)

    async def _write_answer(self, keys: TaskKeys, record: TaskRecord, answer: StoredAnswer) -> None:
        """Write what the model found, until nothing was forgotten meanwhile."""
        remaining = await self._remaining(keys, record)
        while True:
            await self._write(keys, remaining, answer)
            written, remaining = remaining, await self._remaining(keys, record)
            if remaining == written:
                return

    async def _remaining(self, keys: TaskKeys, record: TaskRecord) -> Remaining:
        said = ended_task_of_record(record, await self._ended.forgotten(keys))
        return await self._ended.remaining(keys, said)

    async def _stay_erased(self, keys: TaskKeys) -> None:
        """Remove what was written of a task that was erased meanwhile, even by an archiver that was killed."""
        if await self._ended.erased(keys):
            await self._records.remove(keys.tenant, keys.task)
            await Known(self._graph, self._near).forget_task(keys.tenant, keys.task)

    # What is found by rule

    async def _find_by_rule(self, keys: TaskKeys, record: TaskRecord, answer: StoredAnswer | None) -> None:
        """Write the facts that no model has said, unless they are written: they may have been left to a model."""
        said = ended_task_of_record(record)
        whole = await asyncio.to_thread(cut_task, said.tenant, said.task, said.session, said.messages)
        facts = ruled_facts(whole, facts_by_rule(answer))
        if not facts:
            return
        if record.extraction is None and answer is None:
            await self._keep(keys, record, {"problem": NO_MODEL})
        there = await self._written(keys, whole, facts_by_rule(answer))
        if any(segment not in there for segment, _ in facts):
            await self._learning.rebuild(keys)

    async def _written(self, keys: TaskKeys, task: CutTask, facts: FactRule) -> dict[str, str]:
        """Return the nodes of facts by rule that the graph has of this task, by the ids of their segments."""
        there: dict[str, str] = {}
        owned: dict[Owner, dict[str, str]] = {}
        for segment, node in ruled_facts(task, facts):
            owned.setdefault(node.owner, {})[segment] = node.id
        for owner, ids in owned.items():
            nodes = await self._graph.nodes(owner, [*set(ids.values())])
            ours = {node.id for node in nodes if any(support.task == keys.task for support in node.supports)}
            there |= {segment: name for segment, name in ids.items() if name in ours}
        return there

    # What a model is asked

    async def _answer(self, keys: TaskKeys, record: TaskRecord) -> StoredAnswer | None:
        """Return the model's answer, which is stored with the record from then on; None: nobody is asked."""
        if (unkept := self._unkept.get(keys.actor)) is not None:
            return await self._keep(keys, record, unkept)
        if self._model is None or await self._model.wanted() is None:
            return None
        task = (await self._remaining(keys, record)).task
        segments = segments_shown(task)
        if not segments:
            return None
        near = await self._near.to(keys, segments)
        await self._graph.nodes(Owner(keys.tenant), [keys.task])  # while it is away nobody is asked again and again
        return await self._ask(AskedTask(keys, record, task, segments, near))

    async def _ask(self, task: AskedTask) -> StoredAnswer | None:
        """Ask about a task: alone if it is long or several owners speak in it, else with others of its owner."""
        owner = task.owner
        if owner is None or task.weight > LONG_WEIGHT:
            return await self._alone(task)
        return await self._asking.call(owner, task)

    def _questions(self, _: Owner) -> GroupedCalls[AskedTask, StoredAnswer | None]:
        return GroupedCalls(
            self._together,
            MOST_WEIGHT,
            weight=lambda task: task.weight,
            refusal=UnusableAnswerError,
            gather_s=self._gather_s,
        )

    async def _alone(self, task: AskedTask) -> StoredAnswer | None:
        return (await self._together([task]))[0]

    async def _together(self, tasks: Sequence[AskedTask]) -> list[StoredAnswer | None]:
        """Ask about tasks in one question, in the order in which they began, and store each one's part of the answer.

        Raises ``UnusableAnswerError`` where they are to be asked about one by one.
        """
        ordered = sorted(tasks, key=lambda task: (task.record.task.created_at, task.keys.task))
        stored = dict(zip((task.keys.actor for task in ordered), await self._ask_in_order(ordered), strict=True))
        return [stored[task.keys.actor] for task in tasks]

    async def _ask_in_order(self, tasks: Sequence[AskedTask]) -> list[StoredAnswer | None]:
        assert self._model is not None
        shown, near = [task.segments for task in tasks], near_to_all([task.near for task in tasks])
        try:
            found = await self._model.ask(tasks[0].keys.tenant, shown, near, tasks[0].keys.actor)
        except (UnusableAnswerError, ModelCutOff) as error:
            if len(tasks) > 1 and not isinstance(error, RefusedModelError):
                raise UnusableAnswerError(str(error)) from None
            actor = tasks[0].keys.actor
            if isinstance(error, ModelCutOff) and not self._cut.pop(actor):  # it may be whole the next time
                self._cut.put(actor, known=True)
                raise
            metrics.learned.labels("unusable").inc()
            metrics.extractions.labels("unusable").inc(len(tasks))
            problem = {"problem": str(error), "at": await self._store.now()}
            return [await self._stored(task, problem) for task in tasks]
        if found is None:
            return [None] * len(tasks)
        metrics.extractions.labels("answered").inc(len(tasks))
        return await self._store_parts(tasks, near, *found)

    async def _store_parts(
        self, tasks: Sequence[AskedTask], near: Sequence[NearNode], value: Any, model: str
    ) -> list[StoredAnswer | None]:
        """Store each task's part of an answer, all of them before it is told that one of them cannot be stored."""
        metrics.learned.labels("unsupported").inc(unsupported(value, sum(len(task.segments) for task in tasks)))
        at, first = await self._store.now(), 0
        earlier: dict[str, EarlierNode] = {}
        same: dict[str, str] = {}
        for task in tasks:
            part = answer_part(value, first, len(task.segments), near, earlier)
            first += len(task.segments)
            ruled = await self._written(task.keys, task.task, _among(task.segments))
            found = extracted(task.keys.tenant, part.value, task.segments, part.near, {}, ruled)
            metrics.learned.labels("unsupported").inc(found.refused)
            new = {name: node for name, node in found.nodes.items() if node.id not in same}
            alike = await self._near.same(task.keys, new)
            same |= {node.id: alike.get(name, node.id) for name, node in new.items()}
            joined = {name: same[node.id] for name, node in found.nodes.items() if same[node.id] != node.id}
            for name, own in part.names.items():
                if (node := found.nodes.get(own)) is not None:
                    shown = NearNode(same[node.id], node.owner.holder, node.kind.value)
                    earlier.setdefault(name, EarlierNode(shown, task.keys.task))
            answer: dict[str, Any] = {"value": part.value, "segments": [segment.id for segment in task.segments]}
            answer |= {"near": [asdict(replace(each, text="")) for each in part.near], "same": joined, "ruled": ruled}
            self._unkept.put(task.keys.actor, {**answer, "after": part.after, "model": model, "at": at})
        return [await self._stored(task, self._unkept.get(task.keys.actor)) for task in tasks]

    async def _stored(self, task: AskedTask, answer: StoredAnswer | None) -> StoredAnswer | None:
        """Return the answer that a task's record has from now on: another archiver may have asked in the meantime."""
        record = await self._records.read(task.keys.tenant, task.keys.task)
        if record is None or record.extraction is not None or answer is None:
            self._unkept.pop(task.keys.actor)
            return None if record is None else record.extraction
        return await self._keep(task.keys, record, answer)

    async def _keep(self, keys: TaskKeys, record: TaskRecord, answer: StoredAnswer) -> StoredAnswer:
        """Store an answer with the record. One that cannot be stored now is tried again without asking."""
        self._unkept.put(keys.actor, answer)
        await self._records.write(record.model_copy(update={"extraction": dict(answer)}))
        self._unkept.pop(keys.actor)
        return answer

    # What is written of an answer

    async def _write(self, keys: TaskKeys, remaining: Remaining, kept: StoredAnswer) -> None:
        """Write what the model found, except what rests on segments forgotten or erased since it was asked."""
        shown = {segment.id: segment for segment in remaining.whole.segments}
        segments = [shown[name] for name in kept["segments"]]
        near = [NearNode(**each) for each in kept["near"]]
        whole = extracted(keys.tenant, kept["value"], segments, near, kept["same"], kept.get("ruled", {}))
        await self._write_found(keys, remaining.task, without_forgotten(whole, remaining.gone), kept.get("after", ()))
        forgotten = [node for node in whole.nodes.values() if node.id in remaining.gone]
        await Known(self._graph, self._near).stay_forgotten(keys, forgotten)
        if remaining.is_reduced:
            anchors = [anchor_text(segment.anchor) for segment in remaining.task.segments]
            await self._graph.retain(keys.tenant, keys.task, anchors)
            await self._near.write_those_of(keys, remaining.task.session, self._graph)

    async def _write_found(self, keys: TaskKeys, task: CutTask, found: Extracted, after: Sequence[str]) -> None:
        """Write nodes, edges and ends of contradicted nodes, then the points that are searched."""
        nodes = list(found.nodes.values())
        await self._graph.upsert_nodes(nodes)
        edges = await self._edges_with_ends(keys, found.edges, after)
        await self._graph.upsert_edges(edges)
        ended: list[MemoryEdge] = []
        for edge in found.contradicted:
            there = await self._graph.nodes(edge.owner, [edge.target])
            if any(target.owner == edge.owner for target in there):  # nobody ends for all what all know
                await self._graph.end(edge.owner, [edge.target], edge.learned_at)
                ended.append(edge)
        for owner in {node.owner for node in nodes}:
            written = [node for node in nodes if node.owner == owner]
            await self._near.write_points(keys, task.session, await consolidate(self._graph, owner, written))
        for owner in {edge.owner for edge in ended}:
            await self._near.write_again(keys, owner, [edge.target for edge in ended if edge.owner == owner])
        metrics.learned.labels("node").inc(len(nodes))
        metrics.learned.labels("edge").inc(len(edges))

    async def _edges_with_ends(
        self, keys: TaskKeys, edges: Sequence[MemoryEdge], after: Sequence[str]
    ) -> list[MemoryEdge]:
        """Return the edges whose ends exist: nodes that the model was shown may have been removed.

        ``after``: tasks of the same question whose nodes are ends; they are written first, if they are not yet.
        """
        found = [edge for edge in edges if await self._has_ends(edge)]
        if len(found) == len(edges):
            return found
        for task in after:
            shard = shard_in(task, ANY_SHARD)
            if shard is not None:
                # Its nodes are what is needed. An edge of it that has no end yet is written in its own turn: where an
                # end is gone for good, as that of an erased task, tasks would be written 2, 4, 8 ... times otherwise.
                await self.rebuild(TaskKeys(shard, keys.tenant, task), with_earlier=False)
        return [edge for edge in edges if await self._has_ends(edge)] if after else found

    async def _has_ends(self, edge: MemoryEdge) -> bool:
        return len(await self._graph.nodes(edge.owner, [edge.source, edge.target])) == len({edge.source, edge.target})


def _among(segments: Sequence[Segment]) -> FactRule:
    """Return the rule that finds the facts of these segments alone."""
    shown: Mapping[str, Segment] = {segment.id: segment for segment in segments}
    return lambda segment: segment.id in shown
