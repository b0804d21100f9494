"""Which part of the gateway is given which: the composition of all that it serves."""

from pentad.contracts.ids import DEFAULT_TENANT
from pentad.services.gateway.api_docs.document_routes import DocumentRoutes
from pentad.services.gateway.api_docs.openapi import VERSION, document
from pentad.services.gateway.console.console_routes import ConsoleRoutes
from pentad.services.gateway.edge.access import Access
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
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.events.relay import Relay
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.configured_models import configured_models
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.presence.sign_ins import SignIns
from pentad.shared.records.record_store import Records
from pentad.shared.schedules.turn_loop import TurnLoop
from pentad.shared.secrets.secret_store import SecretStore
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.workspace.workspace import workspaces_of

_EMBED_S = 30.0
"""Seconds that a client waits for vectors of its own texts at most."""
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


class SharedParts:
    """The parts of a gateway on which all its subjects stand: Redis, events, the inbound stream, and the registries."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store, self.shards = settings, store, settings.pentad_shards
        self.relay = Relay(store.url, self.shards)
        self.inbox = Inbox(
            store, settings.pentad_events_maxlen, settings.pentad_events_ttl_s, settings.pentad_redis_replicas
        )
        self.watch = self.loss_watch()
        self.relay.on_connect(self.watch.suspect)
        file = configured_instructions(settings)
        self.book, self.known = InstructionBook(store, file), KnownRunnables(store, file)
        self.policies = PolicyRegistry(store, configured_policies(settings))
        self.models = ModelRegistry(store, configured_models(settings), [self.known])
        self.records, self.workspaces = Records(settings.records_url), workspaces_of(settings)

    def loss_watch(self) -> LossWatch:
        """Make a watch for messages that Redis loses after they were accepted."""
        return LossWatch(self.store, self.inbox, lambda: self.relay.answered_at)


class TaskParts:
    """The parts by which messages are taken, turns are followed, and sessions and tasks are read and steered."""

    def __init__(self, shared: SharedParts, process: str) -> None:
        self._shared, self._shards = shared, shared.shards
        settings, store, records = shared.settings, shared.store, shared.records
        self.queries = Queries(store, records, self._shards)
        self.streams = TurnStreams(store, shared.relay, self.queries)
        self.webhooks = WebhookRegistry(store, WebhookSecrets(settings), settings.pentad_web_allow, self._shards)
        self.intake = self._intake(shared.watch)
        self.cases = None if settings.pentad_eval_cases is None else EvalCases(settings.pentad_eval_cases, self.queries)
        self.actors = Actors(store, process, settings.lease_ms)
        self.control = Control(self.actors, self.queries)
        self.moves = MessageMoves(store, self.queries, self.cases)
        self.approvals = Approvals(store, self.queries, settings)
        self.results = ClientResults(store, self.queries, settings)
        self.access = Access(settings.api_keys, settings.admin_key, settings.pentad_cors_origins)
        commands = Commands(self.intake, self.control, self.moves, self.approvals, self.results)
        self.websockets = WebSockets(self.access, self.streams, commands, self._shards)
        self.turns = TurnFollower(self.streams, self.intake, self.queries)
        by_time = TasksByTime(store, records, self._shards, settings.session_ttl_s)
        self.tasks = TaskList(store, self.queries, by_time)
        self.states = TurnStates(self.turns, self.queries, self.approvals)

    def _intake(self, watch: LossWatch) -> MessageIntake:
        return MessageIntake(self._shared.inbox, watch, self.webhooks, self._shared.settings.pentad_tenant_share)

    def due_schedules(self) -> DueSchedules:
        """Make what looks after schedules. It sends again what Redis loses, so no session is told of that."""
        intake = self._intake(self._shared.loss_watch())
        return DueSchedules(self._shared.store, intake, self.queries, self.control)

    def routes(self, forks: Forks) -> tuple[object, ...]:
        """Return the groups of routes of messages, sessions and tasks."""
        store, queries, shards = self._shared.store, self.queries, self._shards
        return (
            MessageRoutes(self.intake, self.turns, self.states, shards),
            WebhookRoutes(self.webhooks),
            SessionRoutes(queries, self.streams, shards),
            FileRoutes(self._shared.workspaces, shards),
            TokenRoutes(self.access),
            TaskRoutes(queries, self.tasks, self.control, self.moves, shards),
            ApprovalRoutes(self.approvals),
            ClientResultRoutes(self.results),
            SignInRoutes(SignIns(store), self.approvals),
            ForkRoutes(forks, Comparisons(queries)),
            ToolRoutes(queries, DirectCalls(store, queries, self.intake, self.turns)),
        )


class MemoryParts:
    """The parts by which long-term memory is searched, changed and erased."""

    def __init__(self, shared: SharedParts, queries: Queries) -> None:
        self._shared, self._queries = shared, queries
        settings, store, shards = shared.settings, shared.store, shared.shards
        self._vectors, self._graph = vectors_of(settings, store), graph_of(settings, store)
        self._embedder = make_embedder(settings, store)
        self.knowledge = Knowledge(self._graph)
        walks = HitWalks(self._graph)
        self.memories = Memories(store, queries, self._vectors, self._embedder, self.knowledge, walks, shards)
        self._edits = KnowledgeEdits(
            store, shared.records, self._graph, self._vectors, self._embedder, self.knowledge, shards
        )
        self._turns = MemoryTurns(settings.pentad_memory_calls)
        self.erasures = Erasures(store, queries, self.memories, shards, shared.workspaces)
        self.tools = MemoryTools(self.memories, self._edits, self._turns)

    def routes(self) -> tuple[object, ...]:
        """Return the groups of routes of memory."""
        store, records, shards = self._shared.store, self._shared.records, self._shared.shards
        live, episodes = LiveMemory(store, self._queries), Episodes(store, records, shards)
        undo = ForgettingUndo(store, records, self._vectors, self._edits, shards)
        reindexing = Reindexing(store, self._vectors, self._embedder, shards)
        return (
            MemoryRoutes(self.memories, live, self.knowledge, episodes, self._turns, shards),
            ForgettingRoutes(Forgetting(store, self._vectors, self._graph, shards), undo, self._turns),
            UpkeepRoutes(reindexing, MemoryRebuilds(store)),
            KnowledgeRoutes(self.knowledge, self._edits, self._turns),
            ErasureRoutes(self.erasures, shards),
        )


class OperatorParts:
    """The parts that are of all tenants: models, tools, registries, dead letters and the live system."""

    def __init__(self, shared: SharedParts, tasks: TaskParts) -> None:
        self._shared, self._tasks = shared, tasks
        self.calls = ModelCallClient(shared.store, shared.shards)
        self.embedder = make_embedder(shared.settings, shared.store, _EMBED_S)

    def routes(self) -> tuple[object, ...]:
        """Return the groups of routes of operators, and of models that are asked outside a conversation."""
        shared, queries, closing = self._shared, self._tasks.queries, self._tasks.streams.closing
        settings, store, shards, models = shared.settings, shared.store, shared.shards, shared.models
        registries = RegistryParts(store, shared.known, models, queries.tool_names)
        letters = Letters(store, queries, shards)
        live_tasks = LiveTasks(store, shards, {DEFAULT_TENANT, *settings.api_keys.values()})
        return (
            ModelRoutes(models),
            CompletionRoutes(self.calls, models, queries, self.embedder, closing, shards),
            InstructionRoutes(instruction_registry(registries)),
            GraphRoutes(graph_registry(registries)),
            HookRoutes(store),
            PolicyRoutes(shared.policies, queries.tool_specs),
            VersionRoutes(store),
            ToolServerRoutes(ToolServerRegistry(store, commands=settings.pentad_mcp_commands == "on")),
            HttpToolRoutes(HttpToolRegistry(store, settings.pentad_web_allow)),
            PluginRoutes(store, closing),
            SecretRoutes(SecretStore.of(settings)),
            RunRoutes(shared.book, self._tasks.turns, self._tasks.states, closing, shards),
            LiveSystemRoutes(LiveSystem(store, live_tasks, LiveTools(store, models), shards)),
            DeadLetterRoutes(letters, Redrives(store, letters, queries, settings)),
        )


class ProtocolParts:
    """The parts that speak protocols which others have defined, on those of tasks."""

    def __init__(self, shared: SharedParts, tasks: TaskParts, memory_tools: MemoryTools, forks: Forks) -> None:
        self._shared, self._tasks = shared, tasks
        settings, store, shards = shared.settings, shared.store, shared.shards
        secrets, files = WebhookSecrets(settings), FileResources(shared.workspaces, tasks.queries)
        self.mcp = LateMcpServer(SessionTools(self._sessions()), memory_tools, files, shared.book)
        pushes = PushConfigs(store, secrets, settings.pentad_web_allow)
        self._a2a = A2aRoutes(self._a2a_parts(pushes), shared.book, settings, VERSION)
        self.dispatch = WebhookDispatch(store, settings, secrets, self._a2a.push_form)
        self._responses = KeptResponses(store, shards, settings.session_ttl_s)
        places = ChatPlaces(store, shards, settings.session_ttl_s)
        calls = KeptClientCalls(store, shards, settings.session_ttl_s)
        stores = ChatStores(places, self._responses, calls, shared.workspaces)
        self.chats = ChatTurns(
            tasks.streams,
            tasks.turns,
            tasks.queries,
            forks,
            tasks.control,
            tasks.approvals,
            tasks.results,
            stores,
            shared.book,
        )

    def _sessions(self) -> SessionParts:
        tasks, shared = self._tasks, self._shared
        return SessionParts(
            tasks.streams,
            tasks.turns,
            tasks.states,
            tasks.queries,
            tasks.approvals,
            tasks.control,
            shared.book,
            shared.shards,
        )

    def _a2a_parts(self, pushes: PushConfigs) -> A2aParts:
        tasks, shared = self._tasks, self._shared
        return A2aParts(
            tasks.streams,
            tasks.turns,
            tasks.queries,
            tasks.approvals,
            tasks.control,
            tasks.tasks,
            pushes,
            shared.workspaces,
            shared.shards,
        )

    def routes(self, calls: ModelCallClient) -> tuple[object, ...]:
        """Return the groups of routes of the protocols. ``calls``: they ask models outside a conversation."""
        tasks, shared = self._tasks, self._shared
        decided = DecidedRuns(shared.store)
        return (
            AguiRoutes(
                tasks.streams, tasks.turns, tasks.queries, tasks.approvals, tasks.results, decided, shared.shards
            ),
            McpRoutes(self.mcp),
            self._a2a,
            OpenAIRoutes(self.chats, calls, shared.known),
            ResponsesRoutes(self.chats, self._responses),
        )


class GatewayParts:
    """All parts of a gateway, each given those that it works with. None of them runs before the gateway starts it.

    ``process``: the name of the gateway's process.
    """

    def __init__(self, settings: Settings, store: Store, process: str) -> None:
        self._settings, self._store = settings, store
        self.shared = SharedParts(settings, store)
        self.tasks = TaskParts(self.shared, process)
        self.memory = MemoryParts(self.shared, self.tasks.queries)
        self.operator = OperatorParts(self.shared, self.tasks)
        self._forks = Forks(
            store,
            self.tasks.queries,
            self.tasks.actors,
            self.shared.book,
            self.shared.models,
            self.memory.erasures.task,
            settings,
        )
        self.protocols = ProtocolParts(self.shared, self.tasks, self.memory.tools, self._forks)
        self.schedules = TurnLoop(store, self.tasks.due_schedules().once)
        self.groups = self._make_groups()

    def _make_groups(self) -> tuple[object, ...]:
        """Make all groups of routes: an object of each of ``ROUTE_GROUPS``."""
        settings = self._settings
        return (
            *self.tasks.routes(self._forks),
            *self.memory.routes(),
            *self.operator.routes(),
            ScheduleRoutes(Schedules(self._store, settings.pentad_schedules, settings.pentad_schedule_s)),
            *self.protocols.routes(self.operator.calls),
            ConsoleRoutes(on=settings.pentad_console == "on"),
            ModuleRoutes(),
            DocumentRoutes(lambda: document(ROUTE_GROUPS)),
        )
