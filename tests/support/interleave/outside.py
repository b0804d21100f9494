"""The simulated model and tools, whose behaviour follows from the run's seed."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.instructions import MessagePolicy
from pentad.contracts.records import TaskRecord
from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.task_runner.domain.own_tools import ASK_USER, COMPLETE_TASK, QUESTION, SUMMARY
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelCutOff,
    ModelRefused,
    ModelUnavailable,
    ToolCallDraft,
    Usage,
)
from pentad.shared.records.record_store import Records

TOOLS: Mapping[str, ToolSpec] = {
    name: ToolSpec(name=name, effect=effect, timeout=5)
    for name, effect in (("look", Effect.PURE), ("note", Effect.IDEMPOTENT), ("pay", Effect.UNSAFE))
}
NOBODYS = ToolSpec(name="sleep", effect=Effect.PURE, timeout=5, queue="nobody")
"""A tool whose queue no worker reads: its calls end with their step's time limit."""
OFFERED: Mapping[str, ToolSpec] = {**TOOLS, NOBODYS.name: NOBODYS}
_ROUNDS = 2


class Outside:
    """The model and the tools of one run, with the requests that they got."""

    def __init__(self, chance: Random, own: Random, spoilt: float = 0.0, slept: float = 0.0, asks: float = 0.0) -> None:
        """``own``: source of randomness for features that only some runs have.

        ``spoilt``: share of handlings that fail for good; ``slept``: share of calls that nobody answers; ``asks``:
        share of answers that ask the user, and of those that complete the task by a call.
        """
        self.own, self._spoilt, self._slept, self._asks = own, spoilt, slept, asks
        self.policy: MessagePolicy = "steer"
        """Effect of a message that comes during a turn."""
        self.calm = False
        """Whether nothing fails and nothing takes long any more."""
        self.prompts: dict[str, list[bytes]] = {}
        """Prompts that the model got, by the mark in its answer."""
        self.executed: Counter[str] = Counter()
        """Number of times that each call's effect happened."""
        self.begun: list[str] = []
        """Calls that workers began, in order."""
        self.may_run_again: Counter[str] = Counter()
        """Number of times that each call's start was lost with the server's last writes, even an unsafe call's."""
        self.chance = chance

    async def dawdle(self, usual_s: float, long_s: float) -> None:
        """Take some time."""
        if self.calm:
            return
        long = self.chance.random() < 0.05
        await asyncio.sleep(self.chance.expovariate(1 / usual_s) + (long_s if long else 0))

    def happens(self, share: float) -> bool:
        """Return whether something with this probability happens now."""
        return not self.calm and self.chance.random() < share

    @property
    def sleeps(self) -> bool:
        """Return whether nobody answers the next call."""
        return self._slept > 0 and self.own.random() < self._slept

    def own_calls(self, mark: str) -> tuple[ToolCallDraft, ...]:
        """Calls that no worker runs, for an answer of this mark."""
        if not self._asks:
            return ()
        given = ((ASK_USER.name, QUESTION), (COMPLETE_TASK.name, SUMMARY))
        return tuple(
            ToolCallDraft(tool, to_json({argument: f"{mark} {argument}"}).decode())
            for tool, argument in given
            if self.own.random() < self._asks
        )

    @property
    def spoils(self) -> bool:
        """Return whether the next handling fails for good, so that its work is set aside."""
        return self._spoilt > 0 and not self.calm and self.own.random() < self._spoilt


class SimulatedModel:
    """The port `ChatModel`. Each answer carries a mark that no other has."""

    name = "simulated"

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

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
        """Think for a while, then ask for tools or answer; sometimes fail."""
        outside = self._outside
        mark = f"m{len(outside.prompts)}."
        outside.prompts[mark] = list(request.messages)
        await outside.dawdle(0.02, 0)
        if outside.happens(0.04):
            raise ModelUnavailable("busy", outside.chance.choice((None, 0.3)))
        if outside.happens(0.02):
            raise ModelRefused("no")
        text = f"{mark} says something"
        for at in range(0, len(text), 6):
            on_delta("content", text[at : at + 6])
            try:
                await outside.dawdle(0.02, 1.5)
            except asyncio.CancelledError:
                if request.on_cut is not None:
                    request.on_cut(ModelAnswer(text[: at + 6], "", (), "", Usage(7, 1), self.name))
                raise
        if outside.happens(0.04):
            raise ModelCutOff("cut")
        if (judged := _judged(request)) is not None:
            holds = to_json({"holds": [outside.chance.random() < 0.2 for _ in judged]}).decode()
            return ModelAnswer(holds, "", (), "stop", Usage(7, 3), self.name)
        calls = (*outside.own_calls(mark), *self._calls(mark, request))
        return ModelAnswer(text, "", calls, "stop", Usage(7, 3), self.name)

    def _calls(self, mark: str, request: ChatRequest) -> tuple[ToolCallDraft, ...]:
        chance = self._outside.chance
        if _rounds(request) >= _ROUNDS or chance.random() < 0.35:
            return ()
        return tuple(self._call(mark, n) for n in range(chance.randint(1, 3)))

    def _call(self, mark: str, number: int) -> ToolCallDraft:
        chance = self._outside.chance
        if chance.random() < 0.05:
            return ToolCallDraft(*chance.choice((("unheard-of", "{}"), ("look", "not json"))))
        tool = chance.choice(list(TOOLS))
        return ToolCallDraft(
            NOBODYS.name if self._outside.sleeps else tool, to_json({"mark": f"{mark}{number}"}).decode()
        )

    async def aclose(self) -> None:
        """Nothing is open."""


def _judged(request: ChatRequest) -> list[str] | None:
    """Conditions that the model is to judge; None when it is asked for something else."""
    if not str(from_json(request.messages[0])["content"]).startswith("You watch a conversation"):
        return None
    _, _, conditions = str(from_json(request.messages[-1])["content"]).partition("hold now?\n")
    return conditions.splitlines()


def _rounds(request: ChatRequest) -> int:
    """Answers with tool calls since the last message of the user."""
    rounds = 0
    for raw in reversed(request.messages):
        message = from_json(raw)
        if message["role"] == "user":
            break
        rounds += "tool_calls" in message
    return rounds


class SlowRecords(Records):
    """An in-memory record store whose writes take time."""

    def __init__(self, url: str, outside: Outside) -> None:
        super().__init__(url)
        self._outside = outside

    async def write(self, record: TaskRecord) -> None:
        await self._outside.dawdle(0.04, 0.6)
        await super().write(record)
        await self._outside.dawdle(0.04, 0.6)


class SimulatedTools:
    """A source of tools."""

    quick = False

    tools: Mapping[str, Any] = TOOLS

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def start(self, changed: Callable[[], None]) -> None:
        """Nothing has to be started."""

    async def stop(self, grace_s: float) -> None:
        """Nothing has to be stopped."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Have the effect, somewhere in the middle of the call; sometimes fail, sometimes hang."""
        outside = self._outside
        outside.begun.append(invocation.context.tool_call_id)
        await outside.dawdle(0.03, 2.5)
        if outside.happens(0.05):
            return ToolOutcome("interrupted", "lost", 1)
        call = invocation.context.tool_call_id
        outside.executed[call] += 1
        await outside.dawdle(0.03, 1.0)
        if outside.happens(0.05):
            return ToolOutcome("error", "it went wrong", 1)
        text = f"done {call}"
        return ToolOutcome("ok", text * 1000 if outside.happens(0.05) else text, 1)
