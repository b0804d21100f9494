"""A call of a tool that its worker does not have: it waits, or is answered, and either is told."""

import json
import logging
from typing import Any

import pytest

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.streams import EVENTS, TOOL_CALLS
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.tool_worker import handlers, other_workers
from pentad.services.tool_worker.handlers import ToolHandler
from pentad.services.tool_worker.sources import ToolSources
from pentad.shared.actors.mail import ResultMail
from pentad.shared.keys import TOOLS_REGISTRY
from pentad.shared.presence.published import TOOLS
from pentad.shared.settings import Settings
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Done, Entry
from tests.integration.actors.moves import TASK, Moves
from tests.support.waiting import wait_until

QUEUE = TOOL_CALLS.key(0, queue="default")
ODD = ToolSpec(name="odd", effect=Effect.UNSAFE)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_HOLD_S", 0.0)
    monkeypatch.setattr(other_workers, "_FRESH_S", -1.0)


async def call(moves: Moves, state: str = "open 0") -> tuple[ToolHandler, Entry]:
    handler = ToolHandler(moves.store, Settings(), ToolSources(), 0, "one")
    await ensure_group(moves.store, QUEUE, "tool-worker")
    about: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1", "timeout": 5}
    about |= {"task_id": TASK.task, "tool_call_id": "c1", "step": 1, "tool": "odd", "args": {}, "effect": ODD.effect}
    await moves.store.call("HSET", TASK.calls, "c1", state)
    data = ToolCallCommand(**about).to_json()
    entry_id = await moves.store.call("XADD", QUEUE, "*", "data", data)
    await moves.read("one", QUEUE, "tool-worker")
    return handler, Entry(QUEUE, entry_id.decode(), data)


async def results(moves: Moves) -> list[str]:
    mail = await moves.store.call("ZRANGE", TASK.signals, 0, -1)
    return [ResultMail.model_validate_json(each.split(b" ", 2)[2]).content for each in mail]


async def test_a_call_of_a_tool_that_no_worker_has_any_more_is_answered_with_that(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was handed from worker to worker until the step's time limit."""
    handler, entry = await call(moves)
    assert (await handler.handle(entry), await results(moves)) == (Done.LEFT, [])
    monkeypatch.setattr(other_workers, "_SURE_S", 0.0)
    await moves.read("one", QUEUE, "tool-worker")
    *_, [again, fields] = await moves.store.call("XRANGE", QUEUE, "-", "+")
    assert await handler.handle(Entry(QUEUE, again.decode(), fields[1])) is Done.COMMITTED
    assert await results(moves) == ["error: no tool-worker has 'odd' any more: it was removed or renamed"]


async def test_an_unsafe_call_that_had_started_is_unknown_though_its_tool_is_gone(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_workers, "_SURE_S", -1.0)
    handler, entry = await call(moves, "started another 1")
    assert await handler.handle(entry) is Done.COMMITTED
    assert "outcome unknown" in (await results(moves))[0]


async def test_a_call_whose_tool_another_worker_has_is_left_to_it(moves: Moves) -> None:
    await TOOLS.publish(moves.store, [ODD])
    handler, entry = await call(moves)
    assert (await handler.handle(entry), await results(moves)) == (Done.LEFT, [])


async def test_a_call_that_waits_for_a_worker_says_so_in_progress_and_log(
    moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    said = {"spec": ODD.model_dump(mode="json"), "beat": await moves.store.clock() - 90_000}
    await moves.store.call("HSET", TOOLS_REGISTRY, "odd", json.dumps(said))
    handler, entry = await call(moves)
    with caplog.at_level(logging.WARNING):
        assert (await handler.handle(entry), await results(moves)) == (Done.LEFT, [])
    events = EVENTS.key(0, tenant="default", session="s1")
    await wait_until("the progress", lambda: moves.store.call("XLEN", events))
    [[_, [_, data]]] = await moves.store.call("XRANGE", events, "-", "+")
    assert "waits for a tool-worker that has odd: the last was there at 2" in json.loads(data)["content"]
    assert "a call of odd waits for a tool-worker that has it" in caplog.text
