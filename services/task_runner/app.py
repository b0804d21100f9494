"""The task-runner's composition root."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import MODEL_CALLS, TASK_WAKE
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.services.task_runner.hooks import HookCalls, HookCatalog
from pentad.services.task_runner.initial_recall import ModelWalkChooser
from pentad.services.task_runner.model_calls import CALLS_AT_ONCE, ModelCalls
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.prompt_images import PromptImages
from pentad.services.task_runner.queue_backlog import QueueBacklog
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.leases import LeaseKeeper
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.memory.task_recall import TaskRecall
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.models.model_makers import described
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.presence.announcements import ModelInUse, announce_model
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.secrets.user_secrets import secrets_of
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.service.process import cancel_and_wait, settle
from pentad.shared.service.process_models import ProcessModels
from pentad.shared.settings import Settings
from pentad.shared.store.store import guarded
from pentad.shared.work.timers import TimerLoop
from pentad.shared.workspace.workspace import workspaces_of

log = logging.getLogger(__name__)

_SLOTS = 256


class TaskRunner(ConsumingService):
    """Runs tasks step by step; keeps nothing of a task between two steps."""

    name = "task-runner"
    check = "running"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        active = (settings.pentad_tasks_per_session, settings.tenant_tasks_per_shard)
        actors = Actors(self.store, self.consumer_name, settings.lease_ms, active)
        self._keeper = LeaseKeeper(actors)
        self._models = ProcessModels(settings, self.store, self.name, self.consumer_name)
        pool = self._models.pool
        self.about = f"model: {described(pool.default.name, pool.default.place)}"
        tools = ToolCatalog(self.store, secrets_of(settings))
        self._backlog = QueueBacklog(self.store, self.shards, tools)
        self._hook_catalog = HookCatalog(self.store)
        self._hooks = HookCalls(self.store, self._hook_catalog)
        self._book = InstructionBook(self.store, configured_instructions(settings))
        self._policies = PolicyBook(self.store, configured_policies(settings))
        self._vectors, self._embedder = vectors_of(settings, self.store), make_embedder(settings, self.store)
        memory = MemorySearch(self._vectors, self._embedder)
        self._walks = HitWalks(graph_of(settings, self.store))
        asks = settings.pentad_retrieve == "auto"
        chooser = ModelWalkChooser(self.store, pool, self._book) if asks else None
        tenants, tokens = TenantMemories(self.store), settings.pentad_recall_tokens
        recalling = TaskRecall(memory, self._walks, tenants, tokens, chooser=chooser)
        images = PromptImages(workspaces_of(settings))
        self._handlers = [
            RunnerHandler(
                actors,
                self._keeper,
                pool,
                self._book,
                tools,
                settings,
                shard,
                recalling,
                self._hooks,
                self._policies,
                images,
            )
            for shard in self.shards
        ]
        for shard, handler in enumerate(self._handlers):
            self.serve(TASK_WAKE, shard, handler, _SLOTS)
        calls = ModelCalls(self.store, pool, settings.pentad_coalesce_ms)
        self.serve_entries(MODEL_CALLS, calls.handle, CALLS_AT_ONCE)
        self._warming: asyncio.Task[None] | None = None
        """The model's client is imported beside the work, not in the first step."""
        self._checking: asyncio.Task[None] | None = None

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        announcing = announce_model(self.store, self.consumer_name, self._in_use)
        timers = TimerLoop(self.store, self.shards).run()
        following = (self._book.follow(), self._hook_catalog.follow(), self._policies.follow())
        return (
            *super().loops(),
            self._keeper.run(),
            timers,
            announcing,
            self._backlog.run(),
            *following,
            *self._models.loops(),
        )

    async def start(self) -> None:
        offline = self._models.uses_environment and self._models.pool.default.place is None
        if offline and self.settings.llm_model_id:
            log.warning("LLM_MODEL_ID alone leaves the offline model on: set LLM_API_KEY or LLM_BASE_URL too")
        await guarded("hooks", self._hook_catalog.read)  # before the first step, like the next one
        await guarded("policies", self._policies.read)
        await super().start()
        self._warming = asyncio.create_task(asyncio.to_thread(self._warm))
        self._checking = asyncio.create_task(self._check_key(self._warming))

    async def _check_key(self, warming: "asyncio.Task[None]") -> None:
        await asyncio.shield(warming)
        await self._models.check_key()

    def _warm(self) -> None:
        self._models.pool.warm()
        settle()

    def _in_use(self) -> ModelInUse:
        model = self._models.pool.default
        return ModelInUse(service=self.name, model=model.name, place=model.place)

    def use_instructions(self, configured: Sequence[Instruction]) -> None:
        """Take other instructions of the file."""
        self._book.use_file(configured)

    def use_policies(self, configured: Sequence[ApprovalRule]) -> None:
        """Take other approval policies of the file."""
        self._policies.use_file(configured)

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        self._models.use_configured(configured)

    async def leave(self) -> None:
        for handler in self._handlers:
            handler.interrupt()
        await super().leave()

    async def close(self) -> None:
        if self._checking is not None:
            await cancel_and_wait(self._checking)
        if self._warming is not None:
            await self._warming
        await self._models.close()
        await self._hooks.aclose()
        await self._embedder.aclose()
        await self._vectors.aclose()
        await self._walks.aclose()


def build(settings: Settings) -> TaskRunner:
    """The task-runner, ready to start."""
    return TaskRunner(settings)
