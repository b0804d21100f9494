"""The tool-worker's composition root."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from time import monotonic
from typing import Any

from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import MEMORY_FORGET, RESULT_READ
from pentad.services.tool_worker.builtins.builtin_source import Builtins
from pentad.services.tool_worker.builtins.catalogue import builtins_of
from pentad.services.tool_worker.builtins.memories import MemoryReader, memory_tools
from pentad.services.tool_worker.builtins.memory_forgetting import OwnMemories, forgetting_tool
from pentad.services.tool_worker.builtins.result_reading import KeptResults, result_reading_tool
from pentad.services.tool_worker.children.pool import ToolProcesses
from pentad.services.tool_worker.handlers import ToolHandler
from pentad.services.tool_worker.sources import ToolSources
from pentad.services.tool_worker.transcripts import Transcripts
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import OutageError
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.tool_forms import what_servers_refuse
from pentad.shared.plugins.doubts import doubts
from pentad.shared.presence.published import BEAT_S, INSTRUCTIONS, TOOLS
from pentad.shared.records.record_store import Records
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.settings import Settings
from pentad.shared.store.store import guarded
from pentad.shared.work.intake import Slots

log = logging.getLogger(__name__)
_REFUSED_BY_SOME = "some model servers refuse that, and are then asked without it"

UNSAFE_GRACE_S = 23.0
"""What a started unsafe call is given at a stop before it is reported as unknown."""
_NAMED = 20
"""Tools that are named at the start."""
_LOOK_S = 1.0
"""How long the tools may be missing from a Redis that was emptied: without them the model is offered none."""


def named(names: Sequence[str]) -> str:
    """At most so many that a line holds them."""
    more = f" and {len(names) - _NAMED} more: pentad tools" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


class ToolWorker(ConsumingService):
    """Runs tool calls of the queues that its tools name."""

    name = "tool-worker"
    check = "tools"

    def __init__(self, settings: Settings, *, alone: bool = False) -> None:
        super().__init__(settings)
        self._alone = alone
        """Part of a whole system in one process: what it has is what there is."""
        self.about = ""
        plugins, processes = settings.pentad_plugins, settings.pentad_tool_processes
        threads, variables = settings.pentad_tool_threads, settings.pentad_tool_env
        self._processes = ToolProcesses(plugins, processes, threads, variables)
        self._vectors, self._embedder = vectors_of(settings, self.store), make_embedder(settings, self.store)
        transcripts = Transcripts(self.store, Records(settings.records_url), settings.pentad_shards)
        memory = MemorySearch(self._vectors, self._embedder)
        graph = graph_of(settings, self.store)
        self._walks = HitWalks(graph)
        reader = MemoryReader(self.store, memory, self._walks, transcripts, settings.pentad_shards)
        own = OwnMemories(self._vectors, Forgetter(self.store, self._vectors, graph, settings.pentad_shards))
        results = KeptResults(self.store, settings.pentad_shards, settings.pentad_result_bytes)
        beside = {MEMORY_FORGET: forgetting_tool(own), RESULT_READ: result_reading_tool(results)}
        asking = Builtins(memory_tools(reader) | beside, quick=False)
        self._sources = ToolSources(Builtins(builtins_of(settings.time_zone)), asking, self._processes)
        self._handlers: list[ToolHandler] = []
        self._slots = Slots(settings.pentad_tool_concurrency)
        """For the calls of all queues and shards together."""

    async def prepare(self) -> None:
        """Only the sources know which queues their tools name."""
        await self._sources.start()
        specs = self._sources.specs()
        self.about = f"tools: {named([spec.name for spec in specs])}"
        for spec in self._processes.tools.values():
            for doubt in doubts(spec):
                log.warning("%s", doubt)
            for refused in what_servers_refuse(spec.description, spec.parameters):
                log.warning(
                    "tool %r has %s: some model servers refuse that, and are then asked without it", spec.name, refused
                )
        for queue in sorted({spec.queue for spec in self._sources.specs()}):
            for shard in self.shards:
                handler = ToolHandler(self.store, self.settings, self._sources, shard, self.consumer_name)
                handler.consumer = self.serve(TOOL_CALLS, shard, handler, self._slots, queue=queue)
                self._handlers.append(handler)

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        return [handler.beat() for handler in self._handlers]

    async def start(self) -> None:
        await super().start()
        await guarded("publish tools", self._publish)
        if self._alone:
            await guarded("publish tools", self._forget_others)
        self.background.run(self._keep_published())

    async def _publish(self) -> None:
        await TOOLS.publish(self.store, self._sources.specs())
        await INSTRUCTIONS.publish(self.store, self._processes.instructions)

    async def _forget_others(self) -> None:
        await TOOLS.forget_others(self.store, self._sources.specs())
        await INSTRUCTIONS.forget_others(self.store, self._processes.instructions)

    async def _keep_published(self) -> None:
        """Again when something is gone, and now and then for those who ask when we last lived."""
        said = monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if monotonic() - said >= BEAT_S or await self._lost():
                    await self._publish()
                    said = monotonic()
            except OutageError:
                continue

    async def _lost(self) -> bool:
        return await TOOLS.lost(self.store, self._sources.specs()) or await INSTRUCTIONS.lost(
            self.store, self._processes.instructions
        )

    async def leave(self) -> None:
        await asyncio.gather(*(handler.finish(UNSAFE_GRACE_S) for handler in self._handlers))

    async def close(self) -> None:
        await self._sources.stop(0)
        await self._embedder.aclose()
        await self._vectors.aclose()
        await self._walks.aclose()


def build(settings: Settings, *, alone: bool = False) -> ToolWorker:
    """The tool-worker, ready to start. ``alone``: what it has is what there is; tools of before are forgotten."""
    return ToolWorker(settings, alone=alone)
