"""The runner's side of a durable tool hop; the worker's side is the real tool-worker in its own process."""

import asyncio
import time
from typing import Any
from uuid import uuid4

from pydantic_core import to_json

from pentad.contracts.commands import InboundMessage, WakeUp
from pentad.contracts.events import ToolCallEvent
from pentad.contracts.ids import task_id, tool_call_id
from pentad.contracts.streams import TASK_WAKE, TOOL_CALLS
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.services.task_runner.hooks import HookCalls, HookCatalog
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.leases import LeaseKeeper
from pentad.shared.actors.mail import UserMail
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelAnswer, ToolCallDraft, Usage
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Done, Entry
from pentad.shared.work.handler import Handler
from tests.bench.tool_pace import Pace, command
from tests.support.recalling import recalling

_ANSWER = to_json({"role": "tool", "tool_call_id": "c0-0", "content": "hello"})
_ASKED = to_json({"role": "assistant", "content": None, "tool_calls": [{"id": "c0-0", "type": "function"}]})


class DurableRunner:
    """Serves tasks' wake-ups with some handler; each round starts tasks of its own."""

    name = ""

    def __init__(self, url: str) -> None:
        self.store = Store(url)
        self.pace = Pace()
        self.actors = Actors(self.store, "bench-runner", 2000)
        self.keeper = LeaseKeeper(self.actors)

    def handler(self) -> Handler:
        """What serves the wake-ups."""
        raise NotImplementedError

    async def __aenter__(self) -> "DurableRunner":
        self._consumer = Consumer(
            self.store, TASK_WAKE, TASK_WAKE.key(0), 0, f"bench-{uuid4().hex}", self.handler(), 256, 2000
        )
        await self._consumer.start()
        self._beat = asyncio.create_task(self.keeper.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop_reading()
        await self._consumer.drain()
        await cancel_all([self._beat])
        await self.store.close()

    async def run(self, total: int, in_flight: int) -> float:
        """Make ``total`` calls from so many tasks; returns the seconds they took together."""
        self.pace.begin(total)
        begun = time.perf_counter()
        await asyncio.gather(*(self._task() for _ in range(in_flight)))
        await self.pace.wait()
        return time.perf_counter() - begun

    async def _task(self) -> None:
        keys = TaskKeys(0, "default", task_id(0, uuid4().hex[:20]))
        await self.store.call("HSET", keys.header, "status", "pending", "session", "session-1", "goal", "echo")
        message = InboundMessage(content=keys.task, message_id=keys.task)
        mail = UserMail(message=message, entry_id="1-0", at="2026-01-01T00:00:00.000Z")
        await self.actors.post(keys, "user", mail.to_json(), ("pending",))


class LeanRunner(DurableRunner):
    """Take and commit with the writes of a step, and nothing else: what durability itself costs."""

    name = "lean"

    def handler(self) -> Handler:
        return _Lean(self.actors, self.pace)


class _Lean(Handler):
    def __init__(self, actors: Actors, pace: Pace) -> None:
        self._actors, self._pace = actors, pace
        self._begun: dict[str, float] = {}

    async def handle(self, entry: Entry) -> Done:
        tenant, _, task = entry.parse(WakeUp).actor.partition("/")
        keys = TaskKeys(0, tenant, task)
        taken = await self._actors.take(keys, entry.id)
        if taken is None:
            return Done.COMMITTED
        if task in self._begun:
            self._pace.back(self._begun.pop(task))
        commit = Commit(keys, f"step-{uuid4().hex}")
        commit.unmail([m.number for m in taken.mail])
        commit.log(b"{}\n" + _ANSWER)
        commit.set(keys.header, status="active", turn_steps=1, turn_tokens=22, updated=taken.lease.now, log_length=2)
        if self._pace.more():
            self._ask(commit, keys, taken)
            self._begun[task] = time.perf_counter()
        await self._actors.commit(commit, taken)
        return Done.COMMITTED

    def _ask(self, commit: Commit, keys: TaskKeys, taken: Taken) -> None:
        call = tool_call_id(0, uuid4().hex[:20])
        order = command(0).model_copy(update={"tool_call_id": call, "task_id": keys.task})
        event = ToolCallEvent(**_envelope(keys), tool_call_id=call, tool="echo", args=order.args)
        commit.event(SessionKeys(0, "default", "session-1"), event)
        commit.log(b"{}\n" + _ASKED)
        commit.set(keys.calls, **{call: "open 0"})
        commit.queue(TOOL_CALLS, TOOL_CALLS.key(0, queue="default"), order)
        commit.set(keys.header, step=1, open=to_json([[call, "echo", "default"]]), asked_at=taken.lease.now, attempt=0)
        commit.timer(keys, "timeout", 600_000)

    async def hand_back(self, entries: list[Entry]) -> None:
        """The round is over: what is left needs nobody."""


def _envelope(keys: TaskKeys) -> dict[str, Any]:
    shared = {"event_id": "step-0.1", "at": "2026-01-01T00:00:00.000Z", "tenant_id": "default"}
    return {**shared, "session_id": "session-1", "task_id": keys.task, "correlation_id": "m-1"}


class StepRunner(DurableRunner):
    """The task-runner's own handler, with a model that answers at once and in this process."""

    name = "step"

    def handler(self) -> Handler:
        settings = load_settings({}, redis_url=self.store.url, pentad_step_limit=1 << 20)
        book, tools = InstructionBook(self.store), ToolCatalog(self.store)
        recall, model = recalling(self.store), pool_of(Instant(self.pace))
        hooks = HookCalls(self.store, HookCatalog(self.store))
        return RunnerHandler(
            self.actors, self.keeper, model, book, tools, settings, 0, recall, hooks, PolicyBook(self.store)
        )


class Instant:
    """Asks for the echo tool as long as calls are wanted, then answers."""

    name = "instant"

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._begun: dict[bytes, float] = {}

    @property
    def learned(self) -> tuple[str, ...]:
        return ()

    @property
    def place(self) -> None:
        return None

    @property
    def window(self) -> None:
        return None

    def warm(self) -> None:
        """Nothing to prepare."""

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        """See `ChatModel.stream`."""
        task = request.messages[1]
        if task in self._begun:
            self._pace.back(self._begun.pop(task))
        if not self._pace.more():
            return self._answer("done", ())
        self._begun[task] = time.perf_counter()
        return self._answer("", (ToolCallDraft("echo", '{"text":"hello"}'),))

    def _answer(self, text: str, calls: tuple[ToolCallDraft, ...]) -> ModelAnswer:
        return ModelAnswer(text, "", calls, "stop", Usage(11, 11), self.name)

    async def aclose(self) -> None:
        """See `ChatModel.aclose`."""
