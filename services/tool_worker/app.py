"""The tool-worker's composition root."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from pentad.contracts.streams import HOOKS as HOOK_CALLS
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import MEMORY_FORGET, RESULT_READ, ToolSpec
from pentad.services.tool_worker.breakers import ToolBreakers
from pentad.services.tool_worker.builtins.catalogue import Builtins, builtins_of
from pentad.services.tool_worker.builtins.file_tools import file_tools
from pentad.services.tool_worker.builtins.memory_forget import OwnMemories, forgetting_tool
from pentad.services.tool_worker.builtins.memory_search import MemoryReader, memory_tools
from pentad.services.tool_worker.builtins.result_read import KeptResults, result_reading_tool
from pentad.services.tool_worker.call_files import CallFiles
from pentad.services.tool_worker.call_guard import CallGuard
from pentad.services.tool_worker.children.pool import ToolProcesses
from pentad.services.tool_worker.endpoints.endpoint_tools import EndpointTools
from pentad.services.tool_worker.given_tools import GivenTools
from pentad.services.tool_worker.handlers import ToolHandler
from pentad.services.tool_worker.hooks import HOOKS_AT_ONCE, HookServer
from pentad.services.tool_worker.limits import ToolLimits
from pentad.services.tool_worker.reloads import PluginReloads
from pentad.services.tool_worker.servers.server_tools import ServerTools
from pentad.services.tool_worker.sources import ToolSource, ToolSources
from pentad.services.tool_worker.transcripts import Transcripts
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import OutageError
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.tool_forms import what_servers_refuse
from pentad.shared.plugins.definition import ToolDefinition, description_gaps
from pentad.shared.presence.published import BEAT_S, GRAPHS, HOOKS, INSTRUCTIONS, TOOLS
from pentad.shared.presence.server_reports import report_servers
from pentad.shared.records.record_store import Records
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store, guarded
from pentad.shared.work.intake import Slots
from pentad.shared.workspace.workspace import workspaces_of

if TYPE_CHECKING:
    from pentad.services.tool_worker.builtins.web.web_tools import WebTools

log = logging.getLogger(__name__)

UNSAFE_GRACE_S = 23.0
"""Seconds that a started unsafe call has at a stop before it is reported as unknown."""
_NAMED = 20
"""Tools that are named at the start."""
_LOOK_S = 1.0
"""Seconds between two checks whether the published tools are still in Redis: without them models are offered none."""


def named(names: Sequence[str]) -> str:
    """Join tool names, at most as many as fit in a line."""
    more = f" and {len(names) - _NAMED} more: pentad tools" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _is_of(hook: str, modules: Iterable[str]) -> bool:
    """Whether one of these modules, or a module within one, defines the hook of this name."""
    return any(hook.startswith(f"{module}.") for module in modules)


def _web_tools(settings: Settings) -> "WebTools | None":
    """Return the tools of the web, None where no setting asks for one: the HTTP client is not imported then."""
    if settings.pentad_web == "off" and settings.tavily_api_key is None:
        return None
    from pentad.services.tool_worker.builtins.web.web_tools import WebTools

    return WebTools(settings)


def _code_tools(settings: Settings, store: Store) -> list[ToolSource]:
    """Return the sources of tools that run code of models, none where no setting asks for it: scripts need Linux."""
    if settings.pentad_code == "off":
        return []
    from pentad.services.tool_worker.builtins.code.code_tools import CodeTools
    from pentad.services.tool_worker.builtins.programs.program_tool import ProgramTool

    return [CodeTools.of(settings, store), ProgramTool(store, confined=settings.pentad_sandbox == "on")]


class ToolWorker(ConsumingService):
    """Runs tool calls of the queues that its tools name."""

    name = "tool-worker"
    check = "tools"

    def __init__(
        self, settings: Settings, *, alone: bool = False, changing: bool = False, more: Sequence[ToolSource] = ()
    ) -> None:
        """``alone``, ``changing``: see `build`. ``more``: sources of tools beside the plug-ins and what is built in."""
        super().__init__(settings)
        self._alone = alone
        """Whether this is the only tool-worker, so that tools which others published are removed."""
        self.about = ""
        plugins, processes = settings.pentad_plugins, settings.pentad_tool_processes
        threads, variables = settings.pentad_tool_threads, settings.pentad_tool_env
        self._processes = ToolProcesses(plugins, processes, threads, variables, changing=changing)
        self._vectors, self._embedder = vectors_of(settings, self.store), make_embedder(settings, self.store)
        transcripts = Transcripts(self.store, Records(settings.records_url), settings.pentad_shards)
        memory = MemorySearch(self._vectors, self._embedder)
        graph = graph_of(settings, self.store)
        self._walks = HitWalks(graph)
        reader = MemoryReader(self.store, memory, self._walks, transcripts, settings.pentad_shards)
        own = OwnMemories(self._vectors, Forgetter(self.store, self._vectors, graph, settings.pentad_shards))
        results = KeptResults(self.store, settings.pentad_shards, settings.pentad_result_bytes)
        beside = {MEMORY_FORGET: forgetting_tool(own), RESULT_READ: result_reading_tool(results)}
        workspaces = workspaces_of(settings)
        self._files = None if workspaces is None else CallFiles(self.store, workspaces, settings.pentad_shards)
        files = {} if self._files is None else file_tools(self._files, settings.pentad_result_bytes)
        self._web = _web_tools(settings)
        web = dict(self._web.definitions) if self._web is not None else {}
        asking = Builtins(memory_tools(reader) | beside | files | web, quick=False)
        code = _code_tools(settings, self.store)
        self._servers = ServerTools(settings, self.store)
        self._endpoints = EndpointTools(settings, self.store)
        ours = [Builtins(builtins_of(settings.time_zone)), asking, *code, self._servers]
        self._sources = ToolSources(self._endpoints, *ours, self._processes, *more)
        limits = ToolLimits(self.store, self.shards, settings.lease_ms, self.consumer_name)
        self._guard = CallGuard(limits, ToolBreakers(self.store))
        self._handlers: list[ToolHandler] = []
        self._queues: set[str] = set()
        """Names of the queues that are served."""
        self._published: set[str] = set()
        """Names of the tools that were published last."""
        self._published_instructions: set[str] = set()
        """Names of the instructions that were published last."""
        self._published_graphs: set[str] = set()
        """Names of the graphs that were published last."""
        self._warned_about: dict[str, ToolSpec] = {}
        """The tools that were looked at, as they were then."""
        self._reloads = PluginReloads(self.store, self.consumer_name, plugins, self.reload_plugins)
        self._reloading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._slots = Slots(settings.pentad_tool_concurrency)
        """Places for the calls of all queues and shards together."""

    async def prepare(self) -> None:
        """Only the sources know which queues their tools name."""
        self._reloads.begin()
        await self._sources.start(self._changed.set)
        specs = self._specs()
        self.about = f"tools: {named([spec.name for spec in specs])}"
        self._warn_about(specs)
        self._guard.limits.use(specs)
        self._serve_queues(specs)
        if self.settings.pentad_plugins:
            self.serve_entries(HOOK_CALLS, HookServer(self.store, self._processes).handle, HOOKS_AT_ONCE)

    def _specs(self) -> list[ToolSpec]:
        """Return the tools of the queues that this worker serves."""
        specs, queues = self._sources.specs(), self.settings.pentad_queues
        return [spec for spec in specs if spec.queue in queues] if queues else specs

    def _warn_about(self, specs: Sequence[ToolSpec]) -> None:
        """Warn once of each tool that models will find hard to use, or that model servers are known to refuse."""
        theirs = self._servers.tools
        for spec in specs:
            is_theirs = spec.registered or theirs.get(spec.name) is spec  # nobody here can mend those
            if is_theirs or self._warned_about.get(spec.name) == spec:
                continue
            for gap in description_gaps(spec):
                log.warning("%s", gap)
            for refused in what_servers_refuse(spec.description, spec.parameters):
                log.warning(
                    "tool %r has %s: some model servers refuse that, and are then asked without it", spec.name, refused
                )
            for variable in spec.missing_env:
                log.warning(
                    "tool %r reads the variable %s, which is not set: set it where the tool-worker runs, and start it "
                    "again",
                    spec.name,
                    variable,
                )
        self._warned_about = {spec.name: spec for spec in specs}

    def _serve_queues(self, specs: Sequence[ToolSpec]) -> list[ToolHandler]:
        """Serve the queues that these tools name and that are not served yet; return their handlers.

        A queue is served on when its last tool has gone: its calls are answered, and not left to their time limits.
        """
        added, of_tools = list[ToolHandler](), {spec.queue for spec in specs}
        for queue in sorted({*self.settings.pentad_queues} - of_tools - self._queues):
            log.warning("PENTAD_QUEUES names the queue %r, and no tool here is of it: @pentad.tool(queue=...)", queue)
        for queue in sorted({*self.settings.pentad_queues, *of_tools} - self._queues):
            for shard in self.shards:
                handler = ToolHandler(
                    self.store, self.settings, self._sources, shard, self.consumer_name, self._files, self._guard
                )
                handler.consumer = self.serve(TOOL_CALLS, shard, handler, self._slots, queue=queue)
                added.append(handler)
            self._queues.add(queue)
        self._handlers += added
        return added

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        guarding = (self._guard.limits.run(), self._guard.breakers.run())
        return [*super().loops(), *guarding, *(handler.beat() for handler in self._handlers)]

    async def start(self) -> None:
        await super().start()
        await guarded("publish tools", self._publish)
        if self._alone:
            await guarded("publish tools", self._forget_others)
        self.background.run(self._keep_published())
        self.background.run(self._servers.follow())
        self.background.run(self._endpoints.follow())
        if self.settings.pentad_plugins:
            self.background.run(self._reloads.follow())
        self.background.run(report_servers(self.store, self.consumer_name, self._servers.reports))
        self._following = asyncio.create_task(self._follow_changes())

    async def stop(self) -> None:
        if self._following is not None:
            await cancel_and_wait(self._following)
        await super().stop()

    def alive(self) -> bool:
        following = self._following is None or not self._following.done()
        return super().alive() and following and self._servers.alive()

    async def _follow_changes(self) -> None:
        """A source has other tools than before: serve the queues that are new, and say what there is now."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            specs = self._specs()
            log.info("the tools are others now: %s", named([spec.name for spec in specs]))
            self._warn_about(specs)
            self._guard.limits.use(specs)
            for handler in self._serve_queues(specs):
                await self.begin(handler.consumer, handler.beat())
            await guarded("publish tools", self._publish)

    async def _publish(self) -> None:
        specs = self._specs()
        names = {spec.name for spec in specs}
        await TOOLS.withdraw(self.store, self._published - names)
        await TOOLS.publish(self.store, specs)
        instructions = self._processes.instructions
        told = {each.name for each in instructions}
        await INSTRUCTIONS.withdraw(self.store, self._published_instructions - told)
        await INSTRUCTIONS.publish(self.store, instructions)
        graphs = self._processes.graphs
        drawn = {each.name for each in graphs}
        await GRAPHS.withdraw(self.store, self._published_graphs - drawn)
        await GRAPHS.publish(self.store, graphs)
        await self._publish_hooks()
        self._published, self._published_instructions, self._published_graphs = names, told, drawn

    async def _publish_hooks(self) -> None:
        """Publish the hooks, and withdraw those that the plug-ins of this worker had before and have no more."""
        hooks, modules = self._processes.hooks, self.settings.pentad_plugins
        if not modules:
            return
        others = await HOOKS.names(self.store) - hooks.keys()
        await HOOKS.withdraw(self.store, {name for name in others if _is_of(name, modules)})
        await HOOKS.publish(self.store, list(hooks.values()))

    async def _forget_others(self) -> None:
        await TOOLS.forget_others(self.store, self._specs())
        await INSTRUCTIONS.forget_others(self.store, self._processes.instructions)
        await GRAPHS.forget_others(self.store, self._processes.graphs)
        await HOOKS.forget_others(self.store, list(self._processes.hooks.values()))

    async def _keep_published(self) -> None:
        """Publish again when the registry has lost something, and now and then as a sign of life."""
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
        return (
            await TOOLS.lost(self.store, self._specs())
            or await INSTRUCTIONS.lost(self.store, self._processes.instructions)
            or await GRAPHS.lost(self.store, self._processes.graphs)
            or await HOOKS.lost(self.store, list(self._processes.hooks.values()))
        )

    @property
    def plugin_files(self) -> Sequence[str]:
        """The files that the plug-ins were imported from."""
        return self._processes.files

    async def reload_plugins(self) -> None:
        """Import the plug-ins anew; calls under way finish as they began.

        Raises ``PluginError`` or ``OSError``, and what was imported before stays in use then.
        """
        async with self._reloading:  # files may change at the moment at which an operator asks
            await self._processes.reload()

    async def leave(self) -> None:
        await asyncio.gather(super().leave(), *(handler.finish(UNSAFE_GRACE_S) for handler in self._handlers))
        await self._guard.finish()

    async def close(self) -> None:
        await self._sources.stop(0)
        await self._embedder.aclose()
        await self._vectors.aclose()
        await self._walks.aclose()
        if self._web is not None:
            await self._web.aclose()


def build(
    settings: Settings, *, alone: bool = False, changing: bool = False, tools: Sequence[ToolDefinition] = ()
) -> ToolWorker:
    """Build a tool-worker that is ready to start. ``alone``: it is the only worker, so tools published before are
    removed.

    ``changing``: its plug-ins are imported anew when their files change. ``tools``: those that the program hands over,
    which run in this process.
    """
    more = [GivenTools(tools, settings.pentad_tool_threads)] if tools else []
    return ToolWorker(settings, alone=alone, changing=changing, more=more)
