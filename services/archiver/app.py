"""The archiver's composition root."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pentad.contracts.graphs import Runnable
from pentad.contracts.streams import ARCHIVE, ERASE, EXTRACT, LEARN, MEMORY, REMEMBER, Stream
from pentad.services.archiver.damage import DamagedParts, DamageWatch
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.erased_memory import ErasedMemory, Known
from pentad.services.archiver.erasing import Erasing, TaskEraser
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.extraction_model import ExtractionModel
from pentad.services.archiver.handlers import Archiving
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.archiver.rebuilding import Rebuilding
from pentad.services.archiver.rebuilding_tasks import RebuildingTasks
from pentad.services.archiver.remembering import Remembering
from pentad.services.archiver.session_files import ErasedFiles, OldFiles
from pentad.services.archiver.store_watch import StoreWatch
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import MemoryRefusedError, OutageError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.current_collection import adopt_current
from pentad.shared.memory.extraction_budget import ExtractionBudget
from pentad.shared.memory.forgotten_notes import export_notes, write_handed_over
from pentad.shared.memory.memory_counts import GRAPH, VECTORS, MemoryCounts
from pentad.shared.memory.stores import embedded_graph, embedded_vectors, server_graph, server_vectors
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.models.ports import ModelFailed
from pentad.shared.presence.announcements import announce_wait
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.secrets.secret_store import SecretStore
from pentad.shared.service.background import Background
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.service.process_models import ProcessModels
from pentad.shared.settings import Settings
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.vectors.points import Collection
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry
from pentad.shared.workspace.workspace import workspaces_of

_say = ThrottledLog(logging.getLogger(__name__))

_SLOTS = 16
_REMEMBER_SLOTS = 32
_LEARN_SLOTS = 32
_GATHER_S = 0.1
"""Seconds for which ended tasks are gathered while others were just read: handled together they cost half as much."""
_EXTRACT_SLOTS = 64
"""Most of them wait to be asked about together; `ExtractionModel` bounds the calls of models."""
_REQUEST_SLOTS = 64
_ERASE_SLOTS = 16
"""Erasures that are read at once; `erasing.py` says how many run at once, and whose is next."""
_EMBED_S = 60.0
"""Seconds that embedding a batch may take: nobody waits for it."""

_FIRST_MODEL_S = 2.0
"""Seconds that the embedding model may take to say at the start which collection there is to be."""

_NOTES_KEPT = "notes kept"
"""Name of a one-time task, see `MemoryCounts.is_done`."""
_OTHER_MODEL = (
    "%d points of the memory are of another embedding model (%s): they are found by their words alone. "
    "`pentad memory reindex` embeds them for the one in use (%s); or set EMBED_* to what it was"
)


class Archiver(ConsumingService):
    """Makes finished tasks searchable, writes their records and removes them from Redis.

    One archiver has the embedded memory open; others stand by, and archive meanwhile.
    """

    name = "archiver"
    check = "archiving"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        records, grace_ms = Records(settings.records_url), round(settings.pentad_grace_s * 1000)
        extracts = settings.pentad_extract == "auto"
        self._models = ProcessModels(settings, self.store, self.name, self.consumer_name) if extracts else None
        self._book = InstructionBook(self.store, configured_instructions(settings))
        model = self._extraction_model()
        archiving = Archiving(self.store, records, grace_ms, settings.session_ttl_s, model)
        self.serve_entries(ARCHIVE, archiving.handle, _SLOTS)
        self._at_start = list(self.consumers)
        self._counts = counts = MemoryCounts(self.store)
        self._vectors = server_vectors(settings) or embedded_vectors(settings)
        self._vectors.removals = counts
        self._graph = server_graph(settings) or embedded_graph(settings)
        self._damage = DamageWatch(counts, self._vectors, self._graph)
        self._records = records
        self._embedder = make_embedder(settings, self.store, _EMBED_S)
        ended = EndedTasks(self.store, records, self._vectors)
        self._remembering = Remembering(self.store, ended, self._vectors, self._embedder)
        self._near = NearNodes(self._vectors, self._embedder, self._graph)
        self._remember = remember = self._later(REMEMBER, self._remembering.handle, _REMEMBER_SLOTS, gather_s=_GATHER_S)
        learning = Learning(ended, self._graph, self._near, model)
        learn = self._later(LEARN, learning.handle, _LEARN_SLOTS, gather_s=_GATHER_S)
        extracting = Extracting(self.store, records, ended, self._graph, self._near, learning, model)
        extract = self._later(EXTRACT, extracting.handle, _EXTRACT_SLOTS, gather_s=_GATHER_S)
        again = RebuildingTasks(
            self.store, records, self._graph, self._near, ended, self._remembering, learning, extracting
        )
        aside = DamagedParts(self._vectors, self._graph)
        self._rebuilding = Rebuilding(
            self.store, records, self._vectors, again, aside, self.shards, self._damage.rebuilt
        )
        self._workspaces = workspaces_of(settings)
        erase = self._later(ERASE, self._erasing(records).handle, _ERASE_SLOTS, gives_up=False)
        vectors = self._vectors if isinstance(self._vectors, ChildVectors) else None
        graph = self._graph if isinstance(self._graph, SqliteGraph) else None
        requests: Sequence[Consumer] = ()
        if vectors is not None or graph is not None:
            answering = MemoryServer(self.store, vectors, graph, self._damage.stumbled)
            requests = self._later(MEMORY, answering.handle, _REQUEST_SLOTS)
        # Of two embedded stores the graph is opened last: then what needs both has both.
        both, known = [*requests, *erase], [*learn, *extract]
        first, last = (remember, [*known, *both]) if graph is not None else ([*remember, *both], known)
        self._found = StoreWatch("memory", self._open_vectors, self._look_at_vectors, first)
        self._known = StoreWatch("graph", self._open_graph, self._look_at_graph, last)
        self._memory = Background()

    def _erasing(self, records: Records) -> Erasing:
        settings, memory = self.settings, ErasedMemory(self._vectors, Known(self._graph, self._near))
        limits = settings.pentad_tasks_per_session, settings.tenant_tasks_per_shard
        actors = Actors(self.store, self.consumer_name, settings.lease_ms)
        files = ErasedFiles(self._workspaces)
        tasks = TaskEraser(self.store, records, memory, self._embedder, actors, limits, files=files)
        scripts = None if settings.pentad_scripts is None else ScriptStore(settings.pentad_scripts)
        secrets = None if settings.pentad_secrets is None else SecretStore(settings.pentad_secrets)
        kept = KeptTasks(self.store, records)
        return Erasing(self.store, kept, tasks, memory, self.shards, files, scripts, secrets)

    def _extraction_model(self) -> ExtractionModel | None:
        """Return the model that is asked about archived tasks; None where none is to be asked."""
        if self._models is None:
            return None
        settings = self.settings
        budget = ExtractionBudget(self.store, settings.pentad_extract_tokens, settings.pentad_tenant_share)
        return ExtractionModel(self._models.pool, self._book, budget)

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        models = () if self._models is None else (self._book.follow(), *self._models.loops())
        return [*super().loops(), *models, *self._old_files(), announce_wait(self.store, self._waits_for)]

    def _old_files(self) -> Iterable[Coroutine[Any, Any, None]]:
        if self._workspaces is None:
            return ()
        settings = self.settings
        return (OldFiles(self.store, self._workspaces, settings.pentad_shards, settings.session_ttl_s).run(),)

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        """Take other instructions of the file."""
        self._book.use_file(configured)

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        if self._models is not None:
            self._models.use_configured(configured)

    def reading_at_start(self) -> Sequence[Consumer]:
        return self._at_start

    async def start(self) -> None:
        await super().start()
        self._memory.run(self._found.run())
        self._memory.run(self._known.run())
        self._memory.run(self._rebuild())

    async def stop(self) -> None:
        await self._memory.stop()
        await self._rebuilding.stop()
        await super().stop()

    async def close(self) -> None:
        if self._models is not None:
            await self._models.close()
        await self._embedder.aclose()
        await self._vectors.aclose()
        await self._graph.aclose()

    def checks(self) -> Mapping[str, str | None]:
        stands_by = isinstance(self._vectors, ChildVectors) and not self._found.opened.is_set()
        graph = None if stands_by else self._known.trouble
        return {**super().checks(), "memory": self._found.trouble, "graph": graph}

    def outages(self) -> Sequence[str]:
        """Return which stores are known to be away: everything else begins without them, see `StartsWithout`."""
        return [name for name, watch in (("memory", self._found), ("graph", self._known)) if watch.is_away]

    def _waits_for(self) -> str | None:
        """Return why ended tasks are not remembered now; None: they are."""
        return self._found.trouble or next((each.trouble for each in self._remember if each.trouble), None)

    def notes(self) -> Mapping[str, str]:
        """Return reports of damage: a damaged memory is searched all the same."""
        return {f"memory_{damage.store}": f"{damage.what}: {damage.do}" for damage in self._damage.damages}

    def alive(self) -> bool:
        return self._memory.alive() and super().alive()

    def _later(
        self,
        stream: Stream,
        work: Callable[[Entry], Awaitable[None]],
        slots: int,
        *,
        gives_up: bool = True,
        gather_s: float = 0.0,
    ) -> Sequence[Consumer]:
        """Return consumers that start to read when the store that they need is open."""
        there = len(self.consumers)
        self.serve_entries(stream, work, slots, gives_up=gives_up, gather_s=gather_s)
        return self.consumers[there:]

    async def _open_vectors(self) -> None:
        if isinstance(self._vectors, ChildVectors):
            await self._damage.watched(VECTORS, self._vectors.open())
            await self._damage.look_at_vectors()  # before anything is written to it
            # The first search would wait for all that. What goes wrong here the next look reports.
            with suppress(OutageError, MemoryRefusedError, ModelFailed):
                await self._make_collection(_FIRST_MODEL_S)

    async def _make_collection(self, patience_s: float | None = None) -> Sequence[Collection]:
        """Make the collection of the embedding model where there is none; return all, which are loaded then."""
        fresh = await self._damage.watched(VECTORS, self._remembering.prepare(patience_s))
        found = await self._damage.look_at_vectors()
        current = await self._damage.watched(VECTORS, adopt_current(self._vectors))
        if current is not None and current.name != fresh:
            _say.warning("model", _OTHER_MODEL, current.points, current.name, fresh)
        return found

    async def _look_at_vectors(self) -> None:
        found = await self._make_collection()
        metrics.memory_points.labels().set(sum(there.points for there in found))
        try:
            await self._keep_notes()
        except OutageError as error:
            _say.warning("notes", "what was forgotten is not noted beside the records yet: %s", error)
        await self._damage.read_vectors()

    async def _keep_notes(self) -> None:
        """Write recent notes of forgetting beside the records; once, also those that earlier versions wrote to the
        memory alone."""
        await write_handed_over(self.store, self._records)
        if not await self._counts.is_done(_NOTES_KEPT):
            await export_notes(self.store, self._records, self._vectors)
            await self._counts.done(_NOTES_KEPT)

    async def _look_at_graph(self) -> None:
        looked = self._graph.look() if isinstance(self._graph, SqliteGraph) else self._graph.prepare()
        await self._damage.watched(GRAPH, looked)
        await self._damage.look_at_graph()

    async def _open_graph(self) -> None:
        if isinstance(self._vectors, ChildVectors):  # who has not the vectors has no use for the graph
            await self._found.opened.wait()
        if isinstance(self._graph, SqliteGraph):
            await self._graph.open()
        else:
            await self._graph.prepare()  # before anything is written: what is missing cannot be made so well afterwards

    async def _rebuild(self) -> None:
        """Rebuild the memory when asked to. Only an archiver with both stores open can write to them."""
        await self._found.opened.wait()
        await self._known.opened.wait()
        await self._rebuilding.run()


def build(settings: Settings) -> Archiver:
    """The archiver, ready to start."""
    return Archiver(settings)
