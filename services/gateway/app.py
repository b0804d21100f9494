"""The gateway's composition root."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.graphs import Runnable
from pentad.contracts.ids import DEFAULT_TENANT
from pentad.services.gateway.api_docs.document_routes import DocumentRoutes
from pentad.services.gateway.api_docs.openapi import VERSION, document
from pentad.services.gateway.asgi import GatewayApp
from pentad.services.gateway.console.console_routes import ConsoleRoutes
from pentad.services.gateway.edge.access import Access
from pentad.services.gateway.edge.browsers import open_to
from pentad.services.gateway.edge.operations import routes_of
from pentad.services.gateway.javascript.module_routes import ModuleRoutes
from pentad.services.gateway.memory.erasure_routes import ErasureRoutes
from pentad.services.gateway.memory.erasures import Erasures
from pentad.services.gateway.memory.forgetting import Forgetting, ForgettingUndo
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.knowledge_routes import KnowledgeRoutes
from pentad.services.gateway.memory.live_memory import LiveMemory
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.memory.memory_routes import ForgettingRoutes, MemoryRoutes, UpkeepRoutes
from pentad.services.gateway.memory.memory_turns import MemoryTurns
from pentad.services.gateway.memory.rebuilds import MemoryRebuilds
from pentad.services.gateway.memory.reindexing import Reindexing
from pentad.services.gateway.memory.statements import Episodes, KnowledgeEdits
from pentad.services.gateway.operator.completion_routes import CompletionRoutes
from pentad.services.gateway.operator.dead_letter_routes import DeadLetterRoutes
from pentad.services.gateway.operator.dead_letters import Letters
from pentad.services.gateway.operator.graph_routes import GraphRoutes
from pentad.services.gateway.operator.hook_routes import HookRoutes
from pentad.services.gateway.operator.http_tool_routes import HttpToolRoutes
from pentad.services.gateway.operator.http_tools import HttpToolRegistry
from pentad.services.gateway.operator.instruction_routes import InstructionRoutes, RunRoutes
from pentad.services.gateway.operator.live_system import LiveSystem
from pentad.services.gateway.operator.live_system_routes import LiveSystemRoutes
from pentad.services.gateway.operator.live_tasks import LiveTasks
from pentad.services.gateway.operator.live_tools import LiveTools
from pentad.services.gateway.operator.model_calls import ModelCallClient
from pentad.services.gateway.operator.model_routes import ModelRoutes
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.services.gateway.operator.plugin_routes import PluginRoutes
from pentad.services.gateway.operator.policies import PolicyRegistry
from pentad.services.gateway.operator.policy_routes import PolicyRoutes
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.operator.runnables import (
    KnownRunnables,
    RegistryParts,
    graph_registry,
    instruction_registry,
)
from pentad.services.gateway.operator.server_routes import SecretRoutes, ToolServerRoutes
from pentad.services.gateway.operator.tool_servers import ToolServerRegistry
from pentad.services.gateway.operator.version_routes import VersionRoutes
from pentad.services.gateway.protocols.a2a.a2a_parts import A2aParts
from pentad.services.gateway.protocols.a2a.a2a_routes import A2aRoutes
from pentad.services.gateway.protocols.agui.agui_routes import AguiRoutes
from pentad.services.gateway.protocols.agui.decided_runs import DecidedRuns
from pentad.services.gateway.protocols.mcp_server.file_resources import FileResources
from pentad.services.gateway.protocols.mcp_server.mcp_routes import LateMcpServer, McpRoutes
from pentad.services.gateway.protocols.mcp_server.memory_tools import MemoryTools
from pentad.services.gateway.protocols.mcp_server.session_tools import SessionParts, SessionTools
from pentad.services.gateway.protocols.openai.chat_places import ChatPlaces
from pentad.services.gateway.protocols.openai.chat_turns import ChatStores, ChatTurns
from pentad.services.gateway.protocols.openai.kept_calls import KeptClientCalls
from pentad.services.gateway.protocols.openai.kept_responses import KeptResponses
from pentad.services.gateway.protocols.openai.openai_routes import OpenAIRoutes
from pentad.services.gateway.protocols.openai.responses_routes import ResponsesRoutes
from pentad.services.gateway.schedules.due_schedules import DueSchedules
from pentad.services.gateway.schedules.schedule_routes import ScheduleRoutes
from pentad.services.gateway.schedules.schedules import Schedules
from pentad.services.gateway.tasks.approval_routes import ApprovalRoutes
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.client_result_routes import ClientResultRoutes
from pentad.services.gateway.tasks.client_results import ClientResults
from pentad.services.gateway.tasks.comparisons import Comparisons
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.direct_calls import DirectCalls
from pentad.services.gateway.tasks.eval_cases import EvalCases
from pentad.services.gateway.tasks.file_routes import FileRoutes
from pentad.services.gateway.tasks.fork_routes import ForkRoutes
from pentad.services.gateway.tasks.forks import Forks
from pentad.services.gateway.tasks.message_intake import LossWatch, MessageIntake
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.message_routes import MessageRoutes
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.session_routes import SessionRoutes
from pentad.services.gateway.tasks.sign_in_routes import SignInRoutes
from pentad.services.gateway.tasks.task_list import TaskList, TasksByTime
from pentad.services.gateway.tasks.task_routes import TaskRoutes
from pentad.services.gateway.tasks.token_routes import TokenRoutes
from pentad.services.gateway.tasks.tool_routes import ToolRoutes
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_states import TurnStates
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.services.gateway.tasks.websocket import Commands, WebSockets
from pentad.services.gateway.webhooks.dispatch import WebhookDispatch
from pentad.services.gateway.webhooks.push_configs import PushConfigs
from pentad.services.gateway.webhooks.webhook_registry import WebhookRegistry
from pentad.services.gateway.webhooks.webhook_routes import WebhookRoutes
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.actors.actors import Actors
from pentad.shared.addresses import is_loopback
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.events.relay import Relay
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.inbound.renewal import IdsWatch
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.configured_models import ConfiguredModels, configured_models
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.presence.loop_holds import keep_telling_holds
from pentad.shared.presence.processes import ServiceWork, report_process
from pentad.shared.presence.sign_ins import SignIns, keep_telling_address
from pentad.shared.records.record_store import Records
from pentad.shared.schedules.turn_loop import TurnLoop
from pentad.shared.secrets.secret_store import SecretStore
from pentad.shared.service.background import Background, wait_for_redis
from pentad.shared.service.connections import ConnectionLimits
from pentad.shared.service.http import HttpServer, health_routes, lazily
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.service.run import metrics_keys_of
from pentad.shared.service.runnable import DEFAULT_PORTS, RunnableService
from pentad.shared.settings import Settings
from pentad.shared.store.admission import agree, keep_watching
from pentad.shared.store.store import Store
from pentad.shared.workspace.workspace import workspaces_of

_GRACE_S = 5
_ASK_EVERY_S = 1.0
_EMBED_S = 30.0
"""Seconds that a client waits for vectors of its own texts at most."""
_START_QUIETLY_S = 1.0
ROUTE_GROUPS: tuple[type, ...] = (
    *(MessageRoutes, SessionRoutes, FileRoutes, TokenRoutes, TaskRoutes, ApprovalRoutes, ForkRoutes, ToolRoutes),
    ClientResultRoutes,
    *(MemoryRoutes, ForgettingRoutes, UpkeepRoutes, KnowledgeRoutes, ErasureRoutes),
    *(
        ModelRoutes,
        CompletionRoutes,
        InstructionRoutes,
        GraphRoutes,
        HookRoutes,
        PolicyRoutes,
        RunRoutes,
        VersionRoutes,
    ),
    *(ToolServerRoutes, HttpToolRoutes, PluginRoutes, SecretRoutes, SignInRoutes),
    *(LiveSystemRoutes, DeadLetterRoutes, ScheduleRoutes, WebhookRoutes),
    *(AguiRoutes, McpRoutes, A2aRoutes, OpenAIRoutes, ResponsesRoutes),
    *(ConsoleRoutes, ModuleRoutes, DocumentRoutes),
)
"""All groups of routes but health and metrics, which every service has."""


class GatewayService:
    """The gateway service: accepts messages, relays events and answers queries. It keeps no state of its own."""

    name = "gateway"

    def __init__(
        self, settings: Settings, host: str, port: int | None, others: Sequence[RunnableService], store: Store
    ) -> None:
        self._settings, self._store, self._host = settings, store, host
        self._relay = Relay(store.url, settings.pentad_shards)
        inbox = Inbox(
            store, settings.pentad_events_maxlen, settings.pentad_events_ttl_s, settings.pentad_redis_replicas
        )
        self._watch = LossWatch(store, inbox, lambda: self._relay.answered_at)
        self._relay.on_connect(self._watch.suspect)
        file = configured_instructions(settings)
        self._book, self._known = InstructionBook(store, file), KnownRunnables(store, file)
        self._policies = PolicyRegistry(store, configured_policies(settings))
        self._models = ModelRegistry(store, configured_models(settings), [self._known])
        self._groups = self._make_groups(inbox)
        self._metrics_keys = metrics_keys_of(settings, host)
        self._others = tuple(others)
        self._server = HttpServer(
            lazily(self._make_app),
            host,
            port,
            default_port=DEFAULT_PORTS["gateway"],
            grace_s=_GRACE_S,
            limits=ConnectionLimits(settings.pentad_connections, settings.pentad_connections_per_address),
        )
        self._background = Background()
        self._started = False
        self._ids = IdsWatch(store)

    def _make_groups(self, inbox: Inbox) -> tuple[object, ...]:
        """Make the groups of routes, and the parts that start and stop with the gateway."""
        settings, store, shards = self._settings, self._store, self._settings.pentad_shards
        records, self._workspaces = Records(settings.records_url), workspaces_of(settings)
        queries = Queries(store, records, shards)
        self._inbox, self._streams = inbox, TurnStreams(store, self._relay, queries)
        self._webhooks = WebhookRegistry(store, WebhookSecrets(settings), settings.pentad_web_allow, shards)
        self._intake = MessageIntake(inbox, self._watch, self._webhooks, settings.pentad_tenant_share)
        self._cases = None if settings.pentad_eval_cases is None else EvalCases(settings.pentad_eval_cases, queries)
        self._actor_name = f"{self.name}-{token_hex(6)}"
        actors = Actors(store, self._actor_name, settings.lease_ms)
        control = Control(actors, queries)
        self._schedules = TurnLoop(store, self._due_schedules(inbox, queries, control).once)
        moves = MessageMoves(store, queries, self._cases)
        approvals, self._results = Approvals(store, queries, settings), ClientResults(store, queries, settings)
        self._access = Access(settings.api_keys, settings.admin_key, settings.pentad_cors_origins)
        self._websockets = WebSockets(
            self._access, self._streams, Commands(self._intake, control, moves, approvals, self._results), shards
        )
        turns = TurnFollower(self._streams, self._intake, queries)
        tasks = TaskList(store, queries, TasksByTime(store, records, shards, settings.session_ttl_s))
        states = TurnStates(turns, queries, approvals)
        memory_routes = self._memory_routes(queries, records)
        parts = SessionParts(self._streams, turns, states, queries, approvals, control, self._book, shards)
        forks = Forks(store, queries, actors, self._book, self._models, self._erasures.task, settings)
        return (
            MessageRoutes(self._intake, turns, states, shards),
            WebhookRoutes(self._webhooks),
            SessionRoutes(queries, self._streams, shards),
            FileRoutes(self._workspaces, shards),
            TokenRoutes(self._access),
            TaskRoutes(queries, tasks, control, moves, shards),
            ApprovalRoutes(approvals),
            ClientResultRoutes(self._results),
            SignInRoutes(SignIns(store), approvals),
            ForkRoutes(forks, Comparisons(queries)),
            ToolRoutes(queries, DirectCalls(store, queries, self._intake, turns)),
            *memory_routes,
            *self._operator_routes(queries, turns, states),
            ScheduleRoutes(Schedules(store, settings.pentad_schedules, settings.pentad_schedule_s)),
            *self._protocol_routes(parts, tasks),
            *self._openai_routes(queries, turns, forks, control),
            ConsoleRoutes(on=settings.pentad_console == "on"),
            ModuleRoutes(),
        )

    def _protocol_routes(self, parts: SessionParts, tasks: TaskList) -> tuple[object, ...]:
        """Make the routes of AG-UI, MCP and A2A."""
        streams, turns, queries, approvals = self._streams, parts.turns, parts.queries, parts.approvals
        files = FileResources(self._workspaces, queries)
        self._mcp = LateMcpServer(SessionTools(parts), self._memory_tools, files, self._book)
        settings, secrets = self._settings, WebhookSecrets(self._settings)
        pushes = PushConfigs(self._store, secrets, settings.pentad_web_allow)
        a2a = A2aParts(streams, turns, queries, approvals, parts.control, tasks, pushes, self._workspaces, parts.shards)
        a2a_routes = A2aRoutes(a2a, self._book, settings, VERSION)
        self._dispatch = WebhookDispatch(self._store, settings, secrets, a2a_routes.push_form)
        agui = AguiRoutes(streams, turns, queries, approvals, self._results, DecidedRuns(self._store), parts.shards)
        return agui, McpRoutes(self._mcp), a2a_routes

    def _due_schedules(self, inbox: Inbox, queries: Queries, control: Control) -> DueSchedules:
        """Make what looks after schedules. It sends again what Redis loses, so no session is told of that."""
        unwatched = LossWatch(self._store, inbox, lambda: self._relay.answered_at)
        intake = MessageIntake(inbox, unwatched, self._webhooks, self._settings.pentad_tenant_share)
        return DueSchedules(self._store, intake, queries, control)

    def _openai_routes(
        self, queries: Queries, turns: TurnFollower, forks: Forks, control: Control
    ) -> tuple[object, ...]:
        kept = KeptResponses(self._store, self._settings.pentad_shards, self._settings.session_ttl_s)
        places = ChatPlaces(self._store, self._settings.pentad_shards, self._settings.session_ttl_s)
        calls = KeptClientCalls(self._store, self._settings.pentad_shards, self._settings.session_ttl_s)
        stores = ChatStores(places, kept, calls, self._workspaces)
        self._chats = ChatTurns(self._streams, turns, queries, forks, control, self._results, stores, self._book)
        return OpenAIRoutes(self._chats, self._calls, self._known), ResponsesRoutes(self._chats, kept)

    def _memory_routes(self, queries: Queries, records: Records) -> tuple[object, ...]:
        settings, store, shards = self._settings, self._store, self._settings.pentad_shards
        vectors, graph = vectors_of(settings, store), graph_of(settings, store)
        embedder = make_embedder(settings, store)
        self._knowledge = Knowledge(graph)
        self._memories = Memories(store, queries, vectors, embedder, self._knowledge, HitWalks(graph), shards)
        edits = KnowledgeEdits(store, records, graph, vectors, embedder, self._knowledge, shards)
        undo = ForgettingUndo(store, records, vectors, edits, shards)
        turns = MemoryTurns(settings.pentad_memory_calls)
        episodes = Episodes(store, records, shards)
        self._erasures = Erasures(store, queries, self._memories, shards, self._workspaces)
        self._memory_tools = MemoryTools(self._memories, edits, turns)
        return (
            MemoryRoutes(self._memories, LiveMemory(store, queries), self._knowledge, episodes, turns, shards),
            ForgettingRoutes(Forgetting(store, vectors, graph, shards), undo, turns),
            UpkeepRoutes(Reindexing(store, vectors, embedder, shards), MemoryRebuilds(store)),
            KnowledgeRoutes(self._knowledge, edits, turns),
            ErasureRoutes(self._erasures, shards),
        )

    def _operator_routes(self, queries: Queries, turns: TurnFollower, states: TurnStates) -> tuple[object, ...]:
        settings, store, shards = self._settings, self._store, self._settings.pentad_shards
        models = self._models
        parts = RegistryParts(store, self._known, models, queries.tool_names)
        self._calls, self._embedder = ModelCallClient(store, shards), make_embedder(settings, store, _EMBED_S)
        letters = Letters(store, queries, shards)
        tasks = LiveTasks(store, shards, {DEFAULT_TENANT, *settings.api_keys.values()})
        live = LiveSystem(store, tasks, LiveTools(store, models), shards)
        return (
            ModelRoutes(models),
            CompletionRoutes(self._calls, models, queries, self._embedder, self._streams.closing, shards),
            InstructionRoutes(instruction_registry(parts)),
            GraphRoutes(graph_registry(parts)),
            HookRoutes(store),
            PolicyRoutes(self._policies, queries.tool_specs),
            VersionRoutes(store),
            ToolServerRoutes(ToolServerRegistry(store, commands=settings.pentad_mcp_commands == "on")),
            HttpToolRoutes(HttpToolRegistry(store, settings.pentad_web_allow)),
            PluginRoutes(store, self._streams.closing),
            SecretRoutes(SecretStore.of(settings)),
            RunRoutes(self._book, turns, states, self._streams.closing, shards),
            LiveSystemRoutes(live),
            DeadLetterRoutes(letters, Redrives(store, letters, queries, settings)),
        )

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        """Take other instructions and graphs of the file."""
        self._book.use_file(configured)
        self._known.use_file(configured)

    def use_policies(self, configured: Sequence[ApprovalRule]) -> None:
        """Take other approval policies of the file."""
        self._policies.use_file(configured)

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        self._models.use_configured(configured)

    def _make_app(self) -> Any:
        health = health_routes([self, *self._others], metrics_keys=self._metrics_keys)
        documents = DocumentRoutes(lambda: document(ROUTE_GROUPS))
        routes = [*health, *routes_of(*self._groups, documents)]
        app = GatewayApp(self._access, self._websockets, routes, self._unstarted)
        return open_to(app, self._settings.pentad_cors_origins)

    def _unstarted(self) -> str | None:
        """Return the reason why clients are not served yet; None once they are."""
        return None if self._started else self._store.trouble or "not all that it needs is there yet"

    @property
    def address(self) -> str:
        """Address of the gateway, ``http://HOST:PORT``, once the port is claimed."""
        return self._server.address

    async def start(self) -> None:
        """Claim the port, wait for Redis, start the relay, and serve. During a long wait, requests get its reason."""
        self._server.claim()
        serving = await self._reach_redis()
        self._background.run(self._ask_redis())
        self._background.run(self._ids.run())
        self._background.run(self._book.follow())
        self._background.run(self._schedules.run())
        self._background.run(keep_watching(self._store))
        self._background.run(keep_telling_holds(self._store))
        self._background.run(report_process(self._store, self.name, self._actor_name, self._work))
        for loop in self._dispatch.loops():
            self._background.run(loop)
        if self._settings.pentad_public_url is None and is_loopback(self._host):
            self._background.run(keep_telling_address(self._store, self.address))
        await self._relay.start()
        if not serving:
            await self._server.start()
        self._started = True

    def _work(self) -> ServiceWork:
        return ServiceWork(self._websockets.connections)

    async def _reach_redis(self) -> bool:
        """Wait for Redis, and return whether the server was started meanwhile.

        A claimed port without answers would look to probes like a process that hangs.
        """
        reaching = asyncio.create_task(self._agree())
        try:
            done, _ = await asyncio.wait({reaching}, timeout=_START_QUIETLY_S)
            if not done:
                await self._server.start()
            await reaching
        finally:
            await cancel_and_wait(reaching)
        return not done

    async def _agree(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)

    async def stop(self) -> None:
        """Close WebSockets with 1012, end streams and waits, and let answers finish."""
        self._streams.closing.set()
        await self._server.stop()
        await self._mcp.aclose()
        await self._relay.stop()
        await self._watch.close()
        await self._inbox.close()
        await self._memories.aclose()
        await self._chats.aclose()
        await self._calls.aclose()
        await self._embedder.aclose()
        await self._knowledge.aclose()
        await self._background.stop()
        await self._schedules.release()
        await self._dispatch.stop()
        if self._cases is not None:
            self._cases.close()
        await self._store.close()

    async def _ask_redis(self) -> None:
        """Ping Redis regularly: an unready gateway gets no requests that would show that Redis is available again."""
        while True:
            with contextlib.suppress(OutageError):
                await self._store.call("PING")
            await asyncio.sleep(_ASK_EVERY_S)

    def checks(self) -> Mapping[str, str | None]:
        starting = {} if self._started else {"start": "still starting"}
        return {"redis": self._store.trouble, "relay": self._relay.trouble, "inbound": self._ids.full} | starting

    def notes(self) -> Mapping[str, str]:
        return {"inbound_ids": self._ids.early} if self._ids.early else {}

    def alive(self) -> bool:
        return not self._started or (self._relay.alive() and self._server.alive() and self._background.alive())


def build(
    settings: Settings, host: str, port: int | None = None, others: Sequence[RunnableService] = ()
) -> GatewayService:
    """Return the gateway, ready to start. ``others``: services of the same process whose health it reports.

    Raises ``SettingsError`` for an open gateway that other machines could reach.
    """
    if not settings.api_keys and not is_loopback(host):
        raise SettingsError(f"PENTAD_API_KEYS is not set: a gateway on {host} needs it, as key:tenant,...")
    return GatewayService(settings, host, port, others, Store(settings.redis()))
