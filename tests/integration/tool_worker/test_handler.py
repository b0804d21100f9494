"""A tool call that goes wrong on its way to its result: an unsafe one still runs once."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.tool_worker.domain import UNKNOWN
from pentad.services.tool_worker.handlers import RunningCall, ToolHandler
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation, ToolSources
from pentad.shared.actors.mail import ResultMail
from pentad.shared.errors import OutageError
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry
from tests.integration.actors.moves import TASK, Moves
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

QUEUE = TOOL_CALLS.key(0, queue="default")


class Tools:
    """A source whose one tool returns what cannot be written down."""

    quick = False

    def __init__(self, effect: Effect) -> None:
        self.tools = {"odd": ToolSpec(name="odd", effect=effect)}
        self.runs = 0
        self.limits: list[float] = []

    async def start(self, changed: Callable[[], None]) -> None:
        """Nothing has to be started."""

    async def stop(self, grace_s: float) -> None:
        """Nothing has to be stopped."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        self.runs += 1
        self.limits.append(invocation.timeout_s)
        return ToolOutcome("ok", "\ud800" if self.runs == 1 else "fine", 1)


async def call(moves: Moves, effect: Effect, **more: Any) -> tuple[ToolHandler, Tools, Entry]:
    tools = Tools(effect)
    handler = ToolHandler(moves.store, Settings(), ToolSources(tools), 0, "one")
    await ensure_group(moves.store, QUEUE, "tool-worker")
    given: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1"}
    given |= {"timeout": 5} | more
    command = ToolCallCommand(**given, task_id=TASK.task, tool_call_id="c1", step=1, tool="odd", args={}, effect=effect)
    await moves.store.call("HSET", TASK.calls, "c1", "open 0")
    entry_id = await moves.store.call("XADD", QUEUE, "*", "data", command.to_json())
    await moves.read("one", QUEUE, "tool-worker")
    return handler, tools, Entry(QUEUE, entry_id.decode(), command.to_json())


@pytest.mark.parametrize(("effect", "runs"), [(Effect.UNSAFE, 1), (Effect.PURE, 2)])
async def test_a_result_that_could_not_be_written_does_not_run_an_unsafe_tool_again(
    moves: Moves, effect: Effect, runs: int
) -> None:
    handler, tools, entry = await call(moves, effect)
    with pytest.raises(ValueError, match="surrogates"):
        await handler.handle(entry)
    await handler.handle(entry)
    assert tools.runs == runs
    (mail,) = await moves.store.call("ZRANGE", TASK.signals, 0, -1)
    told = ResultMail.model_validate_json(mail.split(b" ", 2)[2])
    assert told.content == (f"error: {UNKNOWN}" if effect is Effect.UNSAFE else "fine")
    assert await moves.pending(QUEUE, "tool-worker") == {}


async def test_a_start_whose_reply_was_lost_is_run_by_the_worker_that_made_it(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, tools, entry = await call(moves, Effect.UNSAFE)
    tools.runs = 1
    run = Store.run

    async def lossy(self: Store, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        reply = await run(self, name, keys, args)
        if name == "call_start":
            monkeypatch.setattr(Store, "run", run)
            raise OutageError("the reply was lost")
        return reply

    monkeypatch.setattr(Store, "run", lossy)
    with pytest.raises(OutageError):
        await handler.handle(entry)
    assert tools.runs == 1
    await handler.handle(entry)
    assert (tools.runs, await moves.kinds()) == (2, ["result"])


@pytest.mark.parametrize("state", ["started {} 1", "open 0"])
@pytest.mark.parametrize(("effect", "runs"), [(Effect.UNSAFE, 1), (Effect.PURE, 2)])
async def test_an_unsafe_call_does_not_run_again_here_whatever_a_failover_has_lost_of_it(
    moves: Moves, effect: Effect, runs: int, state: str
) -> None:
    """Redis has lost the call's end, or its start as well: the worker finds a call that it ran."""
    handler, tools, entry = await call(moves, effect)
    tools.runs = 1
    await handler.handle(entry)
    await moves.store.call("HSET", TASK.calls, "c1", state.format(handler._owner))
    await _again(moves, entry)
    await handler.handle(entry)
    *_, mail = await moves.store.call("ZRANGE", TASK.signals, 0, -1)
    told = ResultMail.model_validate_json(mail.split(b" ", 2)[2])
    assert (tools.runs - 1, told.content) == (runs, f"error: {UNKNOWN}" if runs == 1 else "fine")


async def _again(moves: Moves, entry: Entry) -> None:
    """The entry is pending again, as it was before its end was lost."""
    await moves.store.call("XCLAIM", QUEUE, "tool-worker", "one", 0, entry.id, "FORCE")


async def test_a_call_runs_under_the_time_limit_of_its_tool(moves: Moves) -> None:
    handler, tools, entry = await call(moves, Effect.UNSAFE, timeout=3)
    await handler._execute(tools, entry.parse(ToolCallCommand), 1)
    assert tools.limits == [3]


async def test_a_call_runs_no_longer_than_until_its_deadline(moves: Moves) -> None:
    deadline = rfc3339(await moves.store.clock() + 60_000)
    handler, tools, entry = await call(moves, Effect.UNSAFE, timeout=3600, deadline=deadline)
    await handler._execute(tools, entry.parse(ToolCallCommand), 1)
    assert 0 < tools.limits[0] <= 60


async def test_a_call_whose_deadline_has_passed_does_not_run(moves: Moves) -> None:
    deadline = rfc3339(await moves.store.clock() - 1)
    handler, tools, entry = await call(moves, Effect.UNSAFE, deadline=deadline)
    await handler.handle(entry)
    (mail,) = await moves.store.call("ZRANGE", TASK.signals, 0, -1)
    told = ResultMail.model_validate_json(mail.split(b" ", 2)[2])
    assert (tools.runs, told.content) == (0, "error: the deadline has passed")


async def test_a_call_that_comes_while_the_worker_stops_is_handed_back(moves: Moves) -> None:
    handler, tools, entry = await call(moves, Effect.UNSAFE)
    await handler.finish(0)
    await handler.handle(entry)
    assert (tools.runs, await moves.store.call("HGET", TASK.calls, "c1")) == (0, b"open 0")
    assert await moves.pending(QUEUE, "tool-worker") == {}
    assert await moves.unread(QUEUE, "tool-worker") == 1


async def test_a_worker_remembers_so_many_unsafe_calls(moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.services.tool_worker.handlers._REMEMBERED", 2)
    handler, *_ = await call(moves, Effect.UNSAFE)
    for name in ("c0", "c1", "c2"):
        handler._remember(name)
    assert list(handler._ran) == ["c1", "c2"]


async def test_a_beat_that_is_refused_is_said_and_the_next_one_comes(moves: Moves) -> None:
    """Somebody has put another kind of key where the queue was, and then puts it right."""
    handler, _, entry = await call(moves, Effect.PURE)
    handler.consumer = cast(Consumer, SimpleNamespace(key=QUEUE))
    running = asyncio.ensure_future(asyncio.Event().wait())
    command = entry.parse(ToolCallCommand)
    handler._running["c1"] = RunningCall(command, TASK, entry, 1, running, reconciles=False)
    await moves.store.call("HSET", TASK.calls, "c1", f"started {handler._owner} 1")
    await moves.store.call("RENAME", QUEUE, f"{QUEUE}:aside")
    await moves.store.call("SET", QUEUE, "x")
    async with beside(handler.beat()):
        await wait_until("the refusal to be said", lambda: "WRONGTYPE" in (moves.store.trouble or ""))
        await moves.store.call("RENAME", f"{QUEUE}:aside", QUEUE)
        await moves.store.call("HDEL", TASK.calls, "c1")
        await wait_until("the closed call to be stopped", running.cancelled)
