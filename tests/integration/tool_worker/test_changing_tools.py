"""A source of tools tells its worker that it has others now: they are offered and served without a restart."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.tool_worker.app import ToolWorker
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.actors.mail import ResultMail
from pentad.shared.presence.published import TOOLS
from pentad.shared.settings import Settings
from tests.integration.actors.moves import TASK, Moves
from tests.support.waiting import wait_until


class ChangingSource:
    """Tools that come and go, as those of a server do."""

    quick = False

    def __init__(self, *names: str) -> None:
        self.tools: Mapping[str, ToolSpec] = {}
        self.schema: dict[str, Any] = {"type": "object", "properties": {}}
        self._changed: Callable[[], None] = lambda: None
        self.become(*names)

    def become(self, *names: str) -> None:
        self.tools = {name: self._spec(name) for name in names}
        self._changed()

    def _spec(self, name: str) -> ToolSpec:
        return ToolSpec(name=name, effect=Effect.IDEMPOTENT, queue=f"q-{name}", parameters=self.schema)

    async def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def stop(self, grace_s: float) -> None:
        """Nothing runs for long."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        return ToolOutcome("ok", f"{invocation.tool} ran", 1)


@asynccontextmanager
async def working(moves: Moves, source: ChangingSource) -> AsyncIterator[ToolWorker]:
    worker = ToolWorker(Settings(redis_url=moves.store.url), more=[source])
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def call(moves: Moves, tool: str) -> None:
    given: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1", "step": 1}
    given |= {"task_id": TASK.task, "tool_call_id": f"c-{tool}", "tool": tool, "args": {}, "effect": Effect.IDEMPOTENT}
    await moves.store.call("HSET", TASK.calls, f"c-{tool}", "open 0")
    key = TOOL_CALLS.key(0, queue=f"q-{tool}")
    await moves.store.call("XADD", key, "*", "data", ToolCallCommand(**given, timeout=30).to_json())


async def results(moves: Moves) -> list[str]:
    mail = await moves.store.call("ZRANGE", TASK.signals, 0, -1)
    return [ResultMail.model_validate_json(each.split(b" ", 2)[2]).content for each in mail]


async def offered(moves: Moves) -> set[str]:
    return {name for name in await TOOLS.read(moves.store) if name in ("first", "second", "third")}


async def test_tools_that_come_are_served_and_tools_that_go_are_offered_no_more(moves: Moves) -> None:
    source = ChangingSource("first")
    async with working(moves, source) as worker:
        assert await offered(moves) == {"first"}
        source.become("first", "second")
        await wait_until("the new tool to be offered", lambda: _is(moves, {"first", "second"}))
        await call(moves, "second")
        await wait_until("a call of the new queue to run", lambda: _said(moves, "second ran"))
        source.become("second")
        await wait_until("the tool to be withdrawn", lambda: _is(moves, {"second"}))
        await call(moves, "first")
        await wait_until(
            "its call to be answered all the same",
            lambda: _said(moves, "error: no tool-worker has 'first' any more: it was removed or renamed"),
        )
        assert worker.alive()


async def test_a_tool_that_another_worker_has_is_offered_on(moves: Moves) -> None:
    mine, other = ChangingSource("first"), ChangingSource("first")
    async with working(moves, mine), working(moves, other):
        mine.become("third")
        await wait_until("the other worker to say it again", lambda: _is(moves, {"first", "third"}))


async def test_what_model_servers_refuse_of_a_tool_is_warned_of_when_it_comes_and_once(
    moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    source = ChangingSource("first")
    source.schema = {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}}}
    source.become("first")
    async with working(moves, source):
        assert warnings_of(caplog, "first") == 1, "at the start"
        source.become("first", "second")
        await wait_until("the new tool to be offered", lambda: _is(moves, {"first", "second"}))
        assert (warnings_of(caplog, "first"), warnings_of(caplog, "second")) == (1, 1)


def warnings_of(caplog: pytest.LogCaptureFixture, tool: str) -> int:
    return len([m for m in caplog.messages if f"tool '{tool}' has" in m and "some model servers refuse that" in m])


async def test_a_change_while_the_worker_stops_is_nobodys_concern(moves: Moves) -> None:
    source = ChangingSource("first")
    async with working(moves, source):
        source.become("second")
    source.become("third")
    assert "third" not in await offered(moves)


async def _is(moves: Moves, names: set[str]) -> bool:
    return await offered(moves) == names


async def _said(moves: Moves, text: str) -> bool:
    return text in await results(moves)
