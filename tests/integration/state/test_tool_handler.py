"""A tool call that goes wrong on its way to its result: an unsafe one still runs once."""

from typing import Any, cast

import pytest

from contracts.commands import ToolCallCommand
from contracts.streams import TOOL_CALLS
from contracts.tools import Effect, ToolSpec
from services.tool_worker.children.invocation import OnProgress, ToolInvocation, ToolOutcome
from services.tool_worker.children.pool import ToolProcesses
from services.tool_worker.domain import UNKNOWN
from services.tool_worker.handlers import ToolHandler
from shared.bus.broker import ensure_group
from shared.bus.entry import Entry
from shared.settings import Settings
from shared.state.mail import ResultMail
from tests.integration.state.moves import TASK, Moves

QUEUE = TOOL_CALLS.key(0, queue="default")


class Tools:
    """The side of `ToolProcesses` that the handler uses; its one tool returns what cannot be written down."""

    def __init__(self, effect: Effect) -> None:
        self.tools = {"odd": ToolSpec(name="odd", effect=effect)}
        self.runs = 0

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        self.runs += 1
        return ToolOutcome("\ud800" if self.runs == 1 else "fine", None, "ok", 1)


async def call(moves: Moves, effect: Effect) -> tuple[ToolHandler, Tools, Entry]:
    tools = Tools(effect)
    handler = ToolHandler(moves.store, Settings(), cast(ToolProcesses, tools), 0, "one")
    await ensure_group(moves.store.redis, QUEUE, "tool-worker")
    given: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1", "timeout": 5}
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
    (mail,) = await moves.store.call("ZRANGE", TASK.mail, 0, -1)
    told = ResultMail.model_validate_json(mail.split(b" ", 2)[2])
    assert told.content == (f"error: {UNKNOWN}" if effect is Effect.UNSAFE else "fine")
    assert await moves.pending(QUEUE, "tool-worker") == {}


async def test_a_start_whose_reply_was_lost_is_run_by_the_worker_that_made_it(moves: Moves) -> None:
    handler, tools, entry = await call(moves, Effect.UNSAFE)
    tools.runs = 1
    state = f"started {handler._owner} 1"
    await moves.store.call("HSET", TASK.calls, "c1", state)
    await handler.handle(entry)
    assert (tools.runs, await moves.kinds()) == (2, ["result"])
