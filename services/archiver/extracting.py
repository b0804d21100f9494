"""Extraction: a model is asked once about each archived task; its answer goes to the record, then to the graph."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import EXTRACT
from pentad.services.archiver.domain import ended_task_of_record
from pentad.services.archiver.ended_tasks import EndedTasks, RecentTasks, Remaining, task_named
from pentad.services.archiver.erased_memory import Known
from pentad.services.archiver.near_nodes import NearNodes, consolidate
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryEdge
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction import (
    Extracted,
    NearNode,
    extracted,
    extraction_question,
    segments_shown,
    without_forgotten,
)
from pentad.shared.memory.points import CutTask
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ModelFailed, ModelRefused, ModelUnavailable
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import Segment
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry

_PATIENCE_S = 120.0
"""Seconds that a model's answer may take: nobody waits for it."""
_MOST_REPAIR_CHARS = 20_000
"""Characters of an unusable answer that are sent back to the model."""
_MOST_ANSWER_BYTES = 1 << 17
"""Bytes of an answer; a larger one is not stored."""


class ExtractionModel:
    """The model that the `memory_archiver` instruction names, or the default one."""

    def __init__(self, pool: ModelPool, book: InstructionBook) -> None:
        self._pool, self._book = pool, book

    async def wanted(self) -> Instruction | None:
        """Return the instruction to ask with; None while only the offline model would answer."""
        instruction = (await self._book.known()).get(MEMORY_ARCHIVER.name, MEMORY_ARCHIVER)
        return instruction if self._pool.is_real(instruction.model) else None

    async def ask(self, instruction: Instruction, question: str, caller: str) -> tuple[Any, str]:
        """Return the value that the model answers, and which model it was.

        Raises ``MemoryOutageError`` while no model is available, ``UnusableAnswerError``, and ``ModelFailed`` for an
        answer that was cut off.
        """
        try:
            return await ask_json(
                self._pool,
                instruction,
                question,
                lambda value, model: (value, model),
                patience_s=_PATIENCE_S,
                most_chars=_MOST_REPAIR_CHARS,
                most_bytes=_MOST_ANSWER_BYTES,
                caller=caller,
            )
        except ModelFailed as error:
            raise _memory_error(error) from None


def _memory_error(error: ModelFailed) -> Exception:
    if isinstance(error, ModelUnavailable):
        return MemoryOutageError(f"nothing is learned from tasks: {error}")
    return UnusableAnswerError(str(error)) if isinstance(error, ModelRefused) else error


StoredAnswer = dict[str, Any]
"""An answer in a record: ``value``, the ``segments`` (ids) and ``near`` nodes that were shown, the new nodes that are
the ``same`` as existing ones, ``model`` and ``at``; or ``problem``: why there is none."""

_MOST_UNSAVED = 20
"""Answers that wait for the record store: more than can be in progress at once, each at most about 100 KiB."""


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
        model: ExtractionModel | None,
    ) -> None:
        """Make the handler. ``model``: None where none is to be asked; stored answers are written all the same."""
        self._store, self._records, self._ended, self._graph = store, records, ended, graph
        self._near, self._model = near, model
        self._unkept: RecentTasks[StoredAnswer] = RecentTasks(_MOST_UNSAVED)
        """Answers whose records could not be written yet: the model is not asked again for them."""

    async def handle(self, entry: Entry) -> None:
        """Extract from the task that the entry names, if it is archived and a model is there."""
        keys = task_named(entry, EXTRACT)
        record = await self._records.read(keys.tenant, keys.task)
        if record is None:
            self._unkept.pop(keys.actor)
            await self._stay_erased(keys)
            return
        await self._extract(keys, record)

    async def rebuild(self, keys: TaskKeys) -> None:
        """Write a model's stored answer about this task again; nobody is asked."""
        record = await self._records.read(keys.tenant, keys.task)
        if record is not None and record.extraction is not None:
            await self._extract(keys, record)

    async def _extract(self, keys: TaskKeys, record: TaskRecord) -> None:
        said = ended_task_of_record(record, await self._ended.forgotten(keys))
        remaining = await self._ended.remaining(keys, said)
        kept = record.extraction or await self._kept(keys, record, segments_shown(remaining.task))
        while kept and "problem" not in kept:
            await self._write(keys, remaining, kept)
            written, said = remaining, ended_task_of_record(record, await self._ended.forgotten(keys))
            remaining = await self._ended.remaining(keys, said)
            if remaining == written:  # the model may have taken long: nothing was forgotten meanwhile
                break
        await self._stay_erased(keys)

    async def _stay_erased(self, keys: TaskKeys) -> None:
        """Remove what was written of a task that was erased meanwhile, even by an archiver that was killed."""
        if await self._ended.erased(keys):
            await self._records.remove(keys.tenant, keys.task)
            await Known(self._graph, self._near).forget_task(keys.tenant, keys.task)

    async def _kept(self, keys: TaskKeys, record: TaskRecord, segments: Sequence[Segment]) -> StoredAnswer | None:
        """Return the model's answer, which is stored with the record from then on; None when there is none."""
        kept = self._unkept.get(keys.actor) or await self._asked(keys, segments)
        if kept is not None:
            self._unkept.put(keys.actor, kept)
            await self._records.write(record.model_copy(update={"extraction": kept}))
            self._unkept.pop(keys.actor)
        return kept

    async def _asked(self, keys: TaskKeys, segments: Sequence[Segment]) -> StoredAnswer | None:
        """Ask the model; None when there is no model or nothing to ask."""
        instruction = await self._model.wanted() if self._model is not None else None
        if self._model is None or instruction is None or not segments:
            return None
        near = await self._near.to(keys, segments)
        try:
            value, model = await self._model.ask(instruction, extraction_question(segments, near), keys.actor)
        except UnusableAnswerError as error:
            metrics.learned.labels("unusable").inc()
            kept: StoredAnswer = {"problem": str(error)}
        else:
            found = extracted(keys.tenant, value, segments, near, {})
            metrics.learned.labels("unsupported").inc(found.refused)
            same = await self._near.same(keys, found.nodes)
            kept = {"value": value, "near": [asdict(each) for each in near], "same": same, "model": model}
            kept["segments"] = [segment.id for segment in segments]
        kept["at"] = await self._store.now()
        return kept

    async def _write(self, keys: TaskKeys, remaining: Remaining, kept: StoredAnswer) -> None:
        """Write what the model found, except what rests on segments forgotten or erased since it was asked."""
        shown = {segment.id: segment for segment in remaining.whole.segments}
        segments = [shown[name] for name in kept["segments"]]
        near = [NearNode(**each) for each in kept["near"]]
        whole = extracted(keys.tenant, kept["value"], segments, near, kept["same"])
        await self._write_found(keys, remaining.task, without_forgotten(whole, remaining.gone))
        forgotten = [node for node in whole.nodes.values() if node.id in remaining.gone]
        await Known(self._graph, self._near).stay_forgotten(keys, forgotten)
        if remaining.is_reduced:
            anchors = [anchor_text(segment.anchor) for segment in remaining.task.segments]
            await self._graph.retain(keys.tenant, keys.task, anchors)
            await self._near.write_those_of(keys, remaining.task.session, self._graph)

    async def _write_found(self, keys: TaskKeys, task: CutTask, found: Extracted) -> None:
        """Write nodes, edges and ends of contradicted nodes, then the points that are searched."""
        nodes = list(found.nodes.values())
        await self._graph.upsert_nodes(nodes)
        edges = [edge for edge in found.edges if await self._has_ends(edge)]
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

    async def _has_ends(self, edge: MemoryEdge) -> bool:
        """Whether both ends of an edge still exist: nodes that the model was shown may have been removed."""
        return len(await self._graph.nodes(edge.owner, [edge.source, edge.target])) == len({edge.source, edge.target})
