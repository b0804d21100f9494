"""The services' own handlers on a real server, driven one wake-up at a time instead of by consumers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.commands import InboundMessage
from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, TOOL_CALLS, Stream
from pentad.contracts.tools import ToolSpec
from pentad.services.archiver.handlers import Archiving
from pentad.services.router.handlers import RouterHandler
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.services.task_runner.hooks import HookCalls, HookCatalog
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.tool_worker.builtins.catalogue import BUILTINS, Builtins
from pentad.services.tool_worker.handlers import ToolHandler
from pentad.services.tool_worker.sources import ToolSource, ToolSources
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.leases import LeaseKeeper
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, TaskKeys, dedup, erased_user, load, session_index
from pentad.shared.memory.task_recall import TaskRecall
from pentad.shared.models.model_pool import ModelPool, pool_of
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelAnswer, ToolCallDraft, Usage
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import Handler
from tests.support.message_router import message_router_of
from tests.support.recalling import recalling

SESSION = SessionKeys(0, "default", "s1")
Script = Callable[[ChatRequest], ModelAnswer]


def answer(text: str, *calls: tuple[str, str]) -> ModelAnswer:
    """What the model says: a text, or calls as (tool, arguments)."""
    return ModelAnswer(text, "", tuple(ToolCallDraft(*c) for c in calls), "stop", Usage(5, 2), "scripted")


class ScriptedPort:
    """The port `ChatModel`: a function of the request, after a pause."""

    name = "scripted"

    def __init__(self, script: Script, pause_s: float = 0.0) -> None:
        self.script, self.pause_s = script, pause_s
        self.asked = 0
        self.window: int | None = None
        """Tokens that the model takes, as far as is known."""
        self._sink: DeltaSink

    def say(self, text: str) -> None:
        """Let the model that is being asked say something more."""
        self._sink("content", text)

    @property
    def learned(self) -> tuple[str, ...]:
        return ()

    @property
    def place(self) -> None:
        return None

    def warm(self) -> None:
        """Nothing to prepare."""

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        self.asked += 1
        self._sink = on_delta
        if self.pause_s:
            on_delta("content", "so far")
            await asyncio.sleep(self.pause_s)
        return self.script(request)

    async def aclose(self) -> None:
        """Nothing is open."""


class _Builtins(ToolCatalog):
    def __init__(self, store: Store, more: Mapping[str, ToolDefinition], others: Sequence[ToolSpec]) -> None:
        super().__init__(store)
        named = {spec.name: spec for spec in (*(tool.spec for tool in more.values()), *others)}
        self._all = {**_SPECS, **named}

    async def specs(self) -> Mapping[str, ToolSpec]:
        return self._all


class _Book(InstructionBook):
    def __init__(self, store: Store, more: Sequence[Instruction], graphs: Sequence[GraphSpec]) -> None:
        super().__init__(store)
        self.instructions = {**BUILT_IN, **{each.name: each for each in more}}
        self.graphs = {each.name: each for each in graphs}

    async def known(self, wanted: str | None = None) -> Mapping[str, Instruction]:
        return self.instructions

    async def runnables(self, wanted: str | None = None) -> Mapping[str, Runnable]:
        return {**self.instructions, **self.graphs}


_SPECS = {name: tool.spec for name, tool in BUILTINS.items()}


class Flow:
    """A router, a runner, a tool worker and an archiver without their reading loops."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        script: Script,
        pause_s: float = 0.0,
        instructions: Sequence[Instruction] = (),
        graphs: Sequence[GraphSpec] = (),
        tools: Mapping[str, ToolDefinition] = MappingProxyType({}),
        models: ModelPool | None = None,
        confirming: ModelPool | None = None,
        recall: TaskRecall | None = None,
        sources: Sequence[ToolSource] = (),
        policies: Sequence[ApprovalRule] = (),
        **settings: object,
    ) -> None:
        self.store = store
        given = {"pentad_data_dir": folder, "pentad_lease_s": 0.5} | settings
        self.settings = Settings.model_validate(given)
        active = (self.settings.pentad_tasks_per_session, self.settings.tenant_tasks_per_shard)
        self.actors = Actors(store, "flow", self.settings.lease_ms, active)
        self.keeper = LeaseKeeper(self.actors, 0.05)
        self.model = ScriptedPort(script, pause_s)
        self.records = Records(self.settings.records_url)
        grace_ms = round(self.settings.pentad_grace_s * 1000)
        self.archiving = Archiving(store, self.records, grace_ms, self.settings.session_ttl_s)
        book = _Book(store, instructions, graphs)
        self.instructions, self.graphs = book.instructions, book.graphs
        message_router = message_router_of(store, self.records, self.settings, book, confirming)
        router = RouterHandler(self.actors, self.keeper, message_router, self.settings, 0)
        asked = models or pool_of(self.model)
        recall = recall or recalling(store)
        self.hooks = HookCalls(store, HookCatalog(store))
        catalog = _Builtins(store, tools, [spec for source in sources for spec in source.tools.values()])
        self.policies = PolicyBook(store, policies)
        runner = RunnerHandler(
            self.actors, self.keeper, asked, book, catalog, self.settings, 0, recall, self.hooks, self.policies
        )
        workers = ToolSources(Builtins({**BUILTINS, **tools}), *sources)
        handler = ToolHandler(store, self.settings, workers, 0, "flow")
        self._served: list[tuple[Stream, str, Handler]] = [
            (SESSION_WAKE, SESSION_WAKE.key(0), router),
            (TASK_WAKE, TASK_WAKE.key(0), runner),
            (TOOL_CALLS, TOOL_CALLS.key(0, queue="default"), handler),
        ]
        self._entries = 0

    async def prepare(self) -> "Flow":
        """Create the groups."""
        for stream, key, _ in self._served:
            await ensure_group(self.store, key, stream.group or "")
        return self

    async def say(self, content: str, session: SessionKeys = SESSION, **fields: object) -> None:
        """A user's message arrives in the session's mailbox."""
        self._entries += 1
        now = await self.store.clock()
        await self.ingested(content, f"{now}-{self._entries}", session.session, session.tenant, **fields)

    async def ingested(
        self, content: str, entry: str, session_id: str = "s1", tenant: str = "default", **fields: object
    ) -> list[bytes]:
        """An inbound entry is moved to its session; what became of it."""
        name = f"u{entry.partition('-')[2]}"
        session = SessionKeys(0, tenant, session_id)
        body = {"content": content, "session_id": session_id, "message_id": name} | fields
        message = InboundMessage.model_validate(body)
        seen, user = dedup(0, tenant, session_id, name), message.user_id
        marks = [session.erased, erased_user(0, tenant, user) if user else session.erased]
        keys = [session.wake, load(0), session.header, session.messages, seen, session_index(0, tenant), *marks]
        args: list[Argument] = [self.settings.session_ttl_s, DEDUP_TTL_S, 100_000, ""]
        about = (session.actor, tenant, session_id, message_digest(message), message.to_json())
        _, _, *outcomes = await self.store.run("ingest", keys, [*args, entry, *about])
        return list(outcomes)

    async def once(self, only: Stream | None = None) -> int:
        """Serve what waits now, one stream after the other, or in one alone; returns how much it was."""
        served = 0
        for stream, key, handler in tuple(self._served):
            if only not in (None, stream):
                continue
            reply = await self.store.call("XREADGROUP", "GROUP", stream.group or "", "flow", "STREAMS", key, ">")
            for entry_id, fields in reply[0][1] if reply else ():
                await handler.handle(Entry(key, entry_id.decode(), fields[1]))
                served += 1
        return served

    async def drive(self) -> None:
        """Serve until there is nothing to do."""
        while await self.once():
            pass

    async def task(self) -> TaskKeys:
        """The one task that there is."""
        (name,) = await self.store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)
        return TaskKeys(0, "default", name.decode())

    async def task_named(self, task: str) -> TaskKeys:
        """One of several."""
        return TaskKeys(0, "default", task)

    async def status(self) -> str:
        """The task's status."""
        status: bytes = await self.store.call("HGET", (await self.task()).header, "status")
        return status.decode()
