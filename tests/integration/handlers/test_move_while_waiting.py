"""A message moves while its task, or the other one, asks, is paused, is stale, or works on something before it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED
from pentad.shared.keys import TaskKeys, load, timers
from pentad.shared.kinds import ControlKind
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers import test_move
from tests.integration.handlers.flow import answer
from tests.integration.handlers.test_metadata import TRACE, WARD, commands
from tests.integration.handlers.test_move import Mover, check_prompts, prepared, told, with_open_calls
from tests.support.models.prompts import ill_formed

CALLS = {
    "ask": [("ask_user", '{"question":"Which city?"}')],
    "look and ask": [("echo", '{"text":"x"}'), ("ask_user", '{"question":"Which city?"}')],
    "finish": [("complete_task", '{"summary":"All done."}')],
}
LIVE = ("pending", "active", "waiting", "stale")
DEADLINE = "2099-01-01T00:00:00.000Z"


def script(request: ChatRequest) -> Any:
    assert ill_formed([from_json(raw) for raw in request.messages]) == []
    last = from_json(request.messages[-1])
    calls = CALLS.get(last["content"]) if last["role"] == "user" else None
    return answer("", *calls) if calls else test_move.script(request)


async def begun(store: Store, folder: Path, *said: str, **settings: Any) -> tuple[Mover, str]:
    """A task to which these were said, one after the other's turn."""
    mover = await prepared(store, folder, script, **settings)
    await mover.say(*said)
    return mover, (await mover.tasks())[0]


async def control(mover: Mover, what: ControlKind, task: str) -> None:
    await mover.flow.actors.post(TaskKeys(0, "default", task), what, b"{}", LIVE, control=what)
    await mover.flow.drive()


async def moved_from(mover: Mover, message: str, task: str, to: str = "new") -> str:
    """Move it, and let everything come of it; returns the task that got it."""
    await mover.move(message, task, to)
    await mover.flow.drive()
    return str((await told(mover.store, "message_moved"))[-1]["to_task_id"])


async def timers_of(store: Store, task: str) -> set[str]:
    """Its timers. That its last end is to be remembered says nothing of how it goes on."""
    found = await store.call("ZRANGE", timers(0), 0, -1)
    kinds = {kind for kind, _, actor in (raw.decode().partition(" ") for raw in found) if actor.endswith(task)}
    return kinds - {"remember"}


async def statuses(mover: Mover, task: str) -> list[str]:
    events = await told(mover.store, "task_start", "task_status", "task_end")
    return [f"{e['type']} {e.get('reason', '')}".strip() for e in events if e["task_id"] == task]


async def test_a_question_whose_answer_is_moved_away_is_asked_again(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "ask", "a poem")
    second = await moved_from(mover, "u2", first)
    assert await mover.status(first) == "waiting question"
    assert await statuses(mover, first) == [
        "task_start", "task_status question", "task_status it goes on", "task_end answered", "task_start",
        "task_status question",
    ]  # fmt: skip
    assert await timers_of(store, first) == {"wait", "stale"}
    assert await mover.status(second) == "completed answered"
    await mover.say("Berlin")
    (*_, routed) = await told(store, "message_routed")
    assert (routed["task_id"], routed["reason"]) == (first, "the task has asked for an answer")
    assert (await mover.transcript(first))[2:] == [
        f"tool: {ANSWERED}", "user: a poem", "assistant: to ask a poem", "exclusion: [3, 4]",
        "user: Berlin", "assistant: to ask Berlin",
    ]  # fmt: skip
    assert await mover.status(first) == "completed answered"
    assert await check_prompts(mover, first)
    assert await store.call("HGET", load(0), "mail") == b"0"


async def test_a_running_answer_to_a_question_is_cut_and_it_is_asked_again(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "ask")
    mover.flow._served.remove(mover.tools)
    await mover.say("call")
    await moved_from(mover, "u2", first)
    assert await mover.status(first) == "waiting question"
    assert await timers_of(store, first) == {"wait", "stale"}
    await mover.say("Berlin")
    assert (await mover.transcript(first))[-1] == "assistant: to ask Berlin"


async def test_an_early_answer_that_leaves_before_the_tools_are_done_leaves_the_question_open(
    store: Store, tmp_path: Path
) -> None:
    mover = await prepared(store, tmp_path, script)
    first = await with_open_calls(mover, word="look and ask")
    await mover.say("a poem")
    assert await mover.status(first) == "active "
    await moved_from(mover, "u2", first)
    assert await mover.status(first) == "waiting question"
    assert "wait" in await timers_of(store, first)
    mover.flow._served.append(mover.tools)
    await mover.flow.drive()
    await mover.say("Berlin", task_id=first)
    assert await mover.status(first) == "completed answered"
    assert (await mover.transcript(first))[-4:] == [
        "tool: x", f"tool: {ANSWERED}", "user: Berlin", "assistant: to look and ask Berlin"
    ]  # fmt: skip


async def test_a_task_whose_message_leaves_unread_tells_again_that_it_asks(store: Store, tmp_path: Path) -> None:
    """Its clients have seen the message come."""
    mover, first = await begun(store, tmp_path, "ask")
    await mover.flow.say("a poem")
    await mover.flow.once(SESSION_WAKE)
    await moved_from(mover, "u2", first)
    assert await statuses(mover, first) == ["task_start", "task_status question", "task_status question"]
    await mover.say("Berlin")
    assert (await mover.transcript(first))[-1] == "assistant: to ask Berlin"


async def test_a_message_that_was_asked_back_about_takes_its_question_along(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "weather", "ask")
    second = await moved_from(mover, "u2", first)
    assert await mover.status(first) == "completed moved"
    assert await mover.status(second) == "waiting question"
    assert await timers_of(store, first) == {"archive"}


async def test_a_message_that_is_moved_to_a_task_that_asks_is_its_answer(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    other, asking = await mover.two_tasks("weather", "ask")
    assert await moved_from(mover, "u1", other, asking) == asking
    assert (await mover.transcript(asking))[-3:] == [
        f"tool: {ANSWERED}",
        "user: weather",
        "assistant: to weather ask weather",
    ]
    assert await mover.status(asking) == "completed answered"


@pytest.mark.parametrize(
    ("said", "moved", "status"),
    [
        (("call", "twice"), "u2", "waiting paused"),
        (("weather", "twice"), "u2", "completed moved"),
        (("twice",), "u1", "cancelled moved"),
    ],
    ids=["its turn before is not over", "its turn before is over", "it has no other message"],
)
async def test_a_paused_task_stays_paused_unless_nothing_is_left_to_do(
    store: Store, tmp_path: Path, said: tuple[str, ...], moved: str, status: str
) -> None:
    mover = await prepared(store, tmp_path, script)
    router, runner, tools = mover.flow._served
    mover.flow._served = [router, runner]
    await mover.say(*said)
    if said[0] == "call":  # its result, with which the next message is read
        mover.flow._served = [tools]
        await mover.flow.once()
        mover.flow._served = [router, runner]
        await mover.flow.drive()
    (first,) = await mover.tasks()
    await control(mover, "pause", first)
    await moved_from(mover, moved, first)
    assert await mover.status(first) == status
    mover.flow._served = [router, runner, tools]
    if status == "waiting paused":
        assert {"wait", "stale"} <= await timers_of(store, first)
        await control(mover, "resume", first)
        assert (await mover.transcript(first))[-1] == "assistant: to call"
        assert await mover.status(first) == "completed answered"
    assert b"paused" not in await store.call("HKEYS", TaskKeys(0, "default", first).header)


async def test_a_question_of_a_paused_task_is_asked_again_when_it_is_resumed(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "ask")
    mover.flow._served.remove(mover.tools)
    await mover.say("call")
    await control(mover, "pause", first)
    await moved_from(mover, "u2", first)
    assert await mover.status(first) == "waiting paused"
    await control(mover, "resume", first)
    assert await mover.status(first) == "waiting question"
    await mover.say("Berlin")
    assert (await mover.transcript(first))[-1] == "assistant: to ask Berlin"


async def test_what_waits_for_a_paused_task_leaves_it_paused(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "ask")
    await control(mover, "pause", first)
    await mover.say("a poem", task_id=first)
    second = await moved_from(mover, "u2", first)
    assert await mover.status(first) == "waiting paused"
    assert await mover.status(second) == "completed answered"
    await control(mover, "resume", first)
    assert await mover.status(first) == "waiting question"


async def test_a_message_that_is_moved_to_a_paused_task_waits_there(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    other, paused = await mover.two_tasks("weather", "ask")
    await control(mover, "pause", paused)
    await moved_from(mover, "u1", other, paused)
    assert (await statuses(mover, paused))[-2:] == ["task_status paused"] * 2
    assert await store.call("HMGET", load(0), "mail", "parked") == [b"0", b"1"]
    await control(mover, "resume", paused)
    assert (await mover.transcript(paused))[-1] == "assistant: to weather ask weather"


async def stale(store: Store, task: str) -> None:
    assert await store.call("ZADD", timers(0), "XX", "CH", 1, f"stale default/{task}") == 1
    await store.call("HSET", TaskKeys(0, "default", task).header, "updated", 1)
    await TimerLoop(store, [0]).fire(0)


async def test_a_stale_task_gives_and_takes_messages_like_any_other(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    other, asking = await mover.two_tasks("weather", "ask")
    await mover.say("look and ask", task_id=other)
    for task in (asking, other):
        await stale(store, task)
    await mover.flow.drive()
    assert [await mover.status(task) for task in (asking, other)] == ["stale question"] * 2
    await moved_from(mover, "u3", other, asking)
    assert await mover.status(other) == "completed moved"
    assert await timers_of(store, other) == {"archive"}
    assert (await mover.transcript(asking))[-3:-1] == [f"tool: {ANSWERED}", "user: look and ask"]
    assert await mover.status(asking) == "waiting question"


async def test_a_turn_whose_answer_leaves_with_a_message_that_came_into_it_goes_on(
    store: Store, tmp_path: Path
) -> None:
    """Also when the task has ended with that answer: what it was asked first has none now."""
    mover = await prepared(store, tmp_path, script)
    first = await with_open_calls(mover, word="call")
    await mover.say("a poem")
    mover.flow._served.append(mover.tools)
    await mover.flow.drive()
    assert await mover.status(first) == "completed answered"
    await moved_from(mover, "u2", first)
    assert (await mover.transcript(first))[2:] == [
        "tool: x", "user: a poem", "assistant: to call a poem", "exclusion: [3, 4]", "assistant: to call"
    ]  # fmt: skip
    assert await statuses(mover, first) == ["task_start", "task_end answered"] * 2
    assert (await check_prompts(mover, first))[-1] == ["call", None, "x"]


async def test_a_turn_that_was_ended_by_a_call_is_over(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "finish", "a poem")
    asked = mover.flow.model.asked
    assert f"tool: {COMPLETED}" in await mover.transcript(first)
    await mover.move("u2", first)
    await mover.flow.once(TASK_WAKE)
    assert await mover.status(first) == "completed answered"
    assert mover.flow.model.asked == asked


async def test_nothing_is_asked_of_a_turn_that_was_ended_by_a_call(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "finish")
    mover.flow._served.remove(mover.tools)
    await mover.say("call")
    asked = mover.flow.model.asked
    await mover.move("u2", first)
    await mover.flow.once(TASK_WAKE)
    await mover.flow.once(TASK_WAKE)
    assert await mover.status(first) == "completed moved"
    assert mover.flow.model.asked == asked + 1, "the other task's"


async def test_a_task_whose_first_message_leaves_is_named_after_the_next(store: Store, tmp_path: Path) -> None:
    mover, first = await begun(store, tmp_path, "weather", "pasta", "rice")
    await moved_from(mover, "u2", first)
    assert (await mover.header(first))["goal"] == b"weather"
    await moved_from(mover, "u1", first)
    assert (await mover.header(first))["goal"] == b"rice"


async def test_a_task_whose_unread_first_message_leaves_is_named_after_the_next(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    for content in ("weather", "pasta"):
        await mover.flow.say(content)
        await mover.flow.once(SESSION_WAKE)
    (first,) = await mover.tasks()
    await moved_from(mover, "u1", first)
    assert (await mover.header(first))["goal"] == b"pasta"


async def test_budget_and_deadline_go_with_a_message_that_was_read(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    first = await with_open_calls(mover, "weather", word="call")
    await mover.say("hold on", task_id=first)
    mover.flow._served.append(mover.tools)
    await mover.flow.drive()
    mover.flow._served.remove(mover.tools)
    await mover.say("twice", task_id=first, deadline=DEADLINE, budget={"steps": 1})
    second = await moved_from(mover, "u4", first)
    header = await mover.header(first)
    assert (header["status"], header.get("deadline", b"0")) == (b"completed", b"0")
    assert from_json((await mover.header(second))["budget"]) == {"steps": 1}
    assert int((await mover.header(second))["deadline"]) > 0
    assert "deadline" in await timers_of(store, second)
    assert "deadline" not in await timers_of(store, first)


async def test_a_turn_that_goes_on_has_its_own_budget_again(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, script)
    router, runner, tools = mover.flow._served
    mover.flow._served = [router, runner]
    await mover.say("call", budget={"steps": 9})
    await mover.say("twice", budget={"steps": 1})
    mover.flow._served = [tools]
    await mover.flow.once()
    mover.flow._served = [router, runner]
    await mover.flow.drive()
    (first,) = await mover.tasks()
    await moved_from(mover, "u2", first)
    assert from_json((await mover.header(first))["budget"]) == {"steps": 9}
    assert (await mover.transcript(first))[-1] == "assistant: to call"


def calling_again(request: ChatRequest) -> Any:
    """Like `script`, but the turn that has one result when "call" is its last message asks for another."""
    said = [from_json(raw) for raw in request.messages[1:]]
    roles = [m["role"] for m in said]
    return answer("", test_move.ECHO) if roles[-1] == "tool" and roles.count("tool") == 1 else script(request)


ANN: dict[str, Any] = {"user_id": "ann", "metadata": {"bed": "4", "time_zone": "Asia/Tokyo"}}
BOB: dict[str, Any] = {"user_id": "bob", "metadata": WARD | {"time_zone": "Europe/Paris"}, "traceparent": TRACE}


async def _work(mover: Mover, *served: int) -> None:
    """Let these alone work: the router, the runner and the tool worker."""
    every = mover.flow._served
    mover.flow._served = [every[n] for n in served]
    await mover.flow.drive()
    mover.flow._served = every


async def _under_way(mover: Mover) -> None:
    """Bob's message has come into the turn, and its calls are open."""
    await mover.flow.say("call", **ANN)
    await _work(mover, 0, 1)
    await mover.flow.say("twice", **BOB)
    await _work(mover, 0)
    await _work(mover, 2)
    await _work(mover, 1)


async def _over(mover: Mover) -> None:
    """Bob's message has come into the turn, and was answered."""
    await mover.flow.say("call", **ANN)
    await _work(mover, 0, 1)
    await mover.flow.say("a poem", **BOB)
    await _work(mover, 0)
    mover.flow.model.script = script
    await mover.flow.drive()
    mover.flow.model.script = calling_again


async def _read_together(mover: Mover) -> None:
    """Both messages were read in one step, and its call is open."""
    await mover.flow.say("weather", **ANN)
    await mover.flow.say("call", **BOB)
    await _work(mover, 0)
    await _work(mover, 1)


@pytest.mark.parametrize("begin", [_under_way, _over, _read_together])
async def test_a_turn_that_goes_on_calls_its_tools_for_its_own_user(
    store: Store, tmp_path: Path, begin: Callable[[Mover], Awaitable[None]]
) -> None:
    """Built-in tools search the memory of the user whom a call names: it may not be that of who has left."""
    mover = await prepared(store, tmp_path, calling_again)
    await begin(mover)
    (first,) = await mover.tasks()
    before = len(await commands(store))
    await moved_from(mover, "u2", first)
    (call,) = [command for command in (await commands(store))[before:] if command["task_id"] == first]
    assert (call["user_id"], call["metadata"], call.get("traceparent")) == ("ann", ANN["metadata"], None)
    assert call["correlation_id"] == "u1"
    assert (await mover.header(first))["time_zone"] == b"Asia/Tokyo"
    starts = [event for event in await told(store, "task_start") if event["task_id"] == first]
    assert {event["metadata"]["bed"] for event in starts} == {"4"}
