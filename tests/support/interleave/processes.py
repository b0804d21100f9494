"""Simulated processes: the services' own handlers and loops, composed as their composition roots do."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from pentad.contracts.streams import ARCHIVE, INBOUND, SESSION_WAKE, TASK_WAKE, TOOL_CALLS, Stream
from pentad.contracts.tools import ToolSpec
from pentad.services.archiver.handlers import Archiving
from pentad.services.router.fast_routing import FastRouting
from pentad.services.router.handlers import RouterHandler
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.services.task_runner.hooks import HookCalls, HookCatalog
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.tool_worker.handlers import ToolHandler
from pentad.services.tool_worker.sources import ToolSources
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.leases import Held, LeaseKeeper
from pentad.shared.errors import DamagedError, PoisonError
from pentad.shared.inbound.ingress import WAITING_LIMIT, Ingress
from pentad.shared.instructions.builtin import EXECUTOR
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.models.model_pool import pool_of
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Done, Entry
from pentad.shared.work.handler import Handler
from pentad.shared.work.housekeeping import Housekeeping
from pentad.shared.work.timers import TimerLoop
from tests.support.interleave.clockwork import Tasks, owner
from tests.support.interleave.consumer import SteppedConsumer
from tests.support.interleave.graphs import GRAPHS
from tests.support.interleave.outside import OFFERED, Outside, SimulatedModel, SimulatedTools, SlowRecords
from tests.support.interleave.store import SteppedStore
from tests.support.message_router import message_router_of
from tests.support.recalling import recalling

if TYPE_CHECKING:
    from tests.support.interleave.operators import Ledger

QUEUE = TOOL_CALLS.key(0, queue="default")


def book_of(store: SteppedStore, outside: Outside) -> InstructionBook:
    """Return the instructions and graphs of the run."""
    return InstructionBook(store, [EXECUTOR.model_copy(update={"on_message": outside.policy}), *GRAPHS.values()])


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts from which a process is made."""

    name: str
    store: SteppedStore
    settings: Settings
    outside: Outside
    chance: Random
    ledger: "Ledger"


class Process(ABC):
    """A service's process. It lives until it is killed or has stopped."""

    def __init__(self, parts: Parts) -> None:
        self.name, self.store, self.settings = parts.name, parts.store, parts.settings
        self.paused_until = 0.0
        self.stopped = False
        self._chance = parts.chance
        active = (parts.settings.pentad_tasks_per_session, parts.settings.tenant_tasks_per_shard)
        self.actors = Actors(parts.store, parts.name, parts.settings.lease_ms, active)
        self.keeper = LeaseKeeper(self.actors)
        self._tasks: Tasks = {}
        self._loops: list[asyncio.Task[Any]] = []

    def consume(self, stream: Stream, key: str, handler: Handler) -> None:
        """Read a stream for this handler."""
        self.consumer = SteppedConsumer(self.store, stream, key, 0, self.name, handler, 8, self.settings.lease_ms)
        self.consumer.chance = self._chance

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = copy_context()
        context.run(owner.set, self._tasks)
        return context.run(asyncio.ensure_future, coroutine)

    def start(self) -> None:
        """Begin to work."""
        kept = [(self.consumer.stream, self.consumer.key)]
        for loop in (*self.loops(), Housekeeping(self.store, kept, self.settings.lease_ms).run()):
            self._loops.append(self._spawn(loop))
        self._spawn(self.consumer.start())

    @abstractmethod
    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the loops that run beside the consumer."""

    def kill(self) -> None:
        """Kill the process: it sends no further command."""
        self.store.wire.die()
        for task in list(self._tasks):
            task.cancel()

    def stop(self) -> None:
        """Begin to stop in order, as on SIGTERM."""
        self._spawn(self._stop())

    async def _stop(self) -> None:
        await self.consumer.stop_reading()
        await self.finish()
        await self.consumer.drain()
        for loop in self._loops:
            loop.cancel()
        await self.leave()
        await self.store.close()
        self.stopped = True

    async def finish(self) -> None:  # noqa: B027
        """Interrupt what is being handled."""

    async def leave(self) -> None:  # noqa: B027
        """Do the last work before the end."""


class SpoiltRouter(RouterHandler):
    """Now and then a message cannot be routed, and is set aside."""

    outside: Outside

    async def serve(self, keys: SessionKeys, taken: Taken, held: Held) -> None:
        if taken.messages and self.outside.spoils:
            raise DamagedError("spoilt")
        await super().serve(keys, taken, held)


class Router(Process):
    """Ingress and routing."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        records = Records(parts.settings.records_url)
        message_router = message_router_of(self.store, records, parts.settings, book_of(self.store, parts.outside))
        handler = SpoiltRouter(self.actors, self.keeper, message_router, parts.settings, 0)
        handler.outside = parts.outside
        self.consume(SESSION_WAKE, SESSION_WAKE.key(0), handler)
        fast_path = FastRouting(self.actors, message_router, WAITING_LIMIT)
        self._ingress = Ingress(self.store, self.settings, fast_path)

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return self.keeper.run(), self._ingress.run(), Housekeeping(self.store, [(INBOUND, INBOUND.key())]).run()

    async def leave(self) -> None:
        await self._ingress.release()


class _FixedTools(ToolCatalog):
    """The published tools; the real catalogue goes by this machine's clock."""

    async def specs(self) -> Mapping[str, ToolSpec]:
        return OFFERED


class SpoiltRunner(RunnerHandler):
    """Now and then a task's mail cannot be handled, and is set aside."""

    outside: Outside

    async def serve(self, keys: TaskKeys, taken: Taken, held: Held) -> None:
        if taken.mail and self.outside.spoils:
            raise DamagedError("spoilt")
        await super().serve(keys, taken, held)


class Runner(Process):
    """Steps and timers."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        model = SimulatedModel(parts.outside)
        catalog = _FixedTools(self.store)
        book = book_of(self.store, parts.outside)
        recall = recalling(self.store)
        hooks, policies = HookCalls(self.store, HookCatalog(self.store)), PolicyBook(self.store)
        pool, settings = pool_of(model), parts.settings
        self._handler = SpoiltRunner(
            self.actors, self.keeper, pool, book, catalog, settings, 0, recall, hooks, policies
        )
        self._handler.outside = parts.outside
        self.consume(TASK_WAKE, TASK_WAKE.key(0), self._handler)

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return self.keeper.run(), TimerLoop(self.store, [0]).run()

    async def finish(self) -> None:
        self._handler.interrupt()


class SpoiltWorker(ToolHandler):
    """Now and then a call cannot be made, and is set aside."""

    outside: Outside

    async def handle(self, entry: Entry) -> Done:
        if self.outside.spoils:
            raise PoisonError("spoilt")
        return await super().handle(entry)


class Worker(Process):
    """Tool calls."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        tools = ToolSources(SimulatedTools(parts.outside))
        self._handler = SpoiltWorker(self.store, parts.settings, tools, 0, parts.name)
        self._handler.outside = parts.outside
        self.consume(TOOL_CALLS, QUEUE, self._handler)
        self._handler.consumer = self.consumer

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self._handler.beat(),)

    async def finish(self) -> None:
        await self._handler.finish(0.2)


class Archiver(Process):
    """Finished tasks leave Redis."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        settings = parts.settings
        archiving = Archiving(
            self.store,
            SlowRecords(settings.records_url, parts.outside),
            round(settings.pentad_grace_s * 1000),
            settings.session_ttl_s,
        )
        self._handler = EntryHandler(self.store, archiving.handle, settings.pentad_max_attempts)
        self.consume(ARCHIVE, ARCHIVE.key(0), self._handler)
        self._handler.consumer = self.consumer

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self._handler.beat(),)

    async def finish(self) -> None:
        await self._handler.interrupt()


ROLES: tuple[type[Process], ...] = (Router, Router, Runner, Runner, Worker, Worker, Archiver, Archiver)
