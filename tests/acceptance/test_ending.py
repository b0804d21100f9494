"""How a turn ends when it does not end by an answer: cancelled, out of steps, of time, of budget."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage
from tests.support.redis.raw_redis import publish
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

_CANCEL_S = 20.0
"""Cancel takes effect within a second; this is for a machine that is busy. Without it nothing here would ever end."""

DEADLINE_S = 2.0
"""Long enough to be at work by then, also on a machine that is busy."""


def in_seconds(seconds: float) -> str:
    """A time from now, as a producer writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_cancel_inside_a_streaming_model_call_takes_effect_within_a_second(pentad_up: Stage) -> None:
    held = say("this will never be said to its end", chunks=6, wait=asyncio.Event(), wait_after=3)
    replies = [held, say("a new beginning")]
    async with pentad_up.model(lambda _: replies.pop(0)) as model, pentad_up.line() as line, pentad_up.api() as api:
        await line.say("talk")
        task_id = (await line.until("content"))["task_id"]
        begun = time.monotonic()
        await line.send(type="cancel", task_id=task_id)
        end = await line.until("task_end")
        took = time.monotonic() - begun
        await wait_until("the model's client to hang up", lambda: model.seen.dropped == 1)
        transcript = await api.transcript(task_id)
        after = await line.turn("again", count=2)
    print(f"cancel in a model call: {took * 1000:.0f} ms; transcript {[m['role'] for m in transcript]}")
    assert took < _CANCEL_S
    assert (end["status"], end["task_id"]) == ("cancelled", task_id)
    assert [m["content"] for m in transcript] == ["talk"]
    assert line.answers("message")[0]["content"] == "a new beginning"
    assert (after["status"], after["task_id"] == task_id) == ("completed", False)
    assert ill_formed(model.chats[1]["messages"]) == []


async def test_cancel_inside_a_running_tool_takes_effect_within_a_second(pentad_up: Stage, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    asked = call(
        ("hold", {"mine": str(ledger), "until": [str(tmp_path / "never")], "answer": ""}), ("echo", {"text": "quick"})
    )
    async with pentad_up.model(lambda _: asked), pentad_up.line() as line, pentad_up.api() as api:
        await line.say("take your time")
        await wait_until("the tool to begin", ledger.exists)
        await line.until("tool_result")
        task_id = line.events[0]["task_id"]
        begun = time.monotonic()
        await api.post(f"/v1/tasks/{task_id}/cancel")
        end = await line.until("task_end")
        took = time.monotonic() - begun
        await wait_until("the tool to be stopped", lambda: "stopped" in ledger.read_text())
        transcript = await api.transcript(task_id)
        await api.post(f"/v1/tasks/{task_id}/cancel", status=409)
        await api.post("/v1/tasks/task-0-nobody/cancel", status=404)
    results = {e["tool"]: e.get("error") or e["result"] for e in line.answers("tool_result")}
    print(f"cancel in a tool: {took * 1000:.0f} ms; results {results}")
    assert took < _CANCEL_S
    assert end["status"] == "cancelled"
    assert results == {"echo": "quick", "hold": "the task was cancelled"}
    assert [m["content"] for m in transcript if m["role"] == "tool"] == ["error: the task was cancelled", "quick"]
    assert ill_formed(transcript) == []


async def test_cancel_takes_waiting_messages_into_the_transcript(pentad_up: Stage, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    asked = call(("hold", {"mine": str(ledger), "until": [str(tmp_path / "never")], "answer": ""}))
    async with pentad_up.model(lambda _: asked), pentad_up.line() as line, pentad_up.api() as api:
        await line.say("take your time")
        await wait_until("the tool to begin", ledger.exists)
        await line.say("hurry up")
        task_id = (await line.until("message_routed", count=2))["task_id"]
        await line.send(type="cancel", task_id=task_id)
        await line.until("task_end")
        transcript = await api.transcript(task_id)
    assert [m["role"] for m in transcript] == ["user", "assistant", "tool", "user"]
    assert transcript[-1]["content"] == "hurry up"
    assert ill_formed(transcript) == []


async def test_a_task_that_never_comes_to_an_end_stops_at_the_step_limit(strict: Stage) -> None:
    asked = call(("echo", {"text": "again"}))
    async with strict.model(lambda _: asked) as model, strict.line() as line, strict.api() as api:
        end = await line.turn("loop")
        transcript = await api.transcript(end["task_id"])
        print(f"stopped after {end['steps']} steps, the model was asked {len(model.chats)} times")
        assert (end["status"], end["reason"], end["steps"], len(model.chats)) == ("failed", "step_limit", 3, 3)
        assert ill_formed(transcript) == []
        assert transcript[-1]["role"] == "tool"


async def test_the_step_limit_counts_from_the_last_user_message(strict: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        users = [i for i, m in enumerate(request["messages"]) if m["role"] == "user"]
        made = sum(m["role"] == "assistant" for m in request["messages"][users[-1] :])
        return say("enough") if made == 2 else call(("echo", {"text": "again"}))

    async with strict.model(script), strict.line() as line:
        ends = [await line.turn(f"turn {n}", count=n) for n in (1, 2)]
    assert [(e["status"], e["steps"]) for e in ends] == [("completed", 3), ("completed", 6)]


async def test_a_deadline_ends_the_turn_in_the_middle_of_a_model_call(pentad_up: Stage) -> None:
    held = say("never", chunks=2, wait=asyncio.Event(), wait_after=2)
    async with pentad_up.model(lambda _: held), pentad_up.line() as line, pentad_up.api() as api:
        begun = time.monotonic()
        message = {"content": "quick!", "session_id": line.session, "deadline": in_seconds(DEADLINE_S)}
        await publish(pentad_up.redis_url, message)
        end = await line.until("task_end")
        took = time.monotonic() - begun
        transcript = await api.transcript(end["task_id"])
    print(f"deadline after {DEADLINE_S} s: ended after {took:.2f} s")
    assert (end["status"], end["reason"]) == ("failed", "deadline_exceeded")
    assert DEADLINE_S - 0.1 < took < DEADLINE_S + _CANCEL_S
    assert ill_formed(transcript) == []


async def test_a_deadline_ends_the_turn_in_the_middle_of_a_tool(pentad_up: Stage, tmp_path: Path) -> None:
    asked = call(("hold", {"mine": str(tmp_path / "ledger"), "until": [str(tmp_path / "never")], "answer": ""}))
    async with pentad_up.model(lambda _: asked), pentad_up.line() as line, pentad_up.api() as api:
        message = {"content": "quick!", "session_id": line.session, "deadline": in_seconds(DEADLINE_S)}
        await publish(pentad_up.redis_url, message)
        end = await line.until("task_end")
        transcript = await api.transcript(end["task_id"])
    error = line.answers("tool_result")[0]["error"]
    print(f"the open call's result: {error}")
    assert (end["status"], end["reason"]) == ("failed", "deadline_exceeded")
    assert "deadline" in error
    assert ill_formed(transcript) == []


async def test_a_message_whose_deadline_has_passed_is_refused(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda _: say("no")) as model, pentad_up.line() as line:
        message = {"content": "late", "session_id": line.session, "message_id": "late", "deadline": in_seconds(-1)}
        await publish(pentad_up.redis_url, message)
        error = await line.until("error")
    assert (error["code"], error["message_id"], model.chats) == ("deadline_exceeded", "late", [])
    assert [e["decision"] for e in line.answers("message_routed")] == ["rejected"]


@pytest.mark.parametrize("budget", [{"steps": 1}, {"tokens": 5}])
async def test_a_spent_budget_waits_for_a_person_and_their_next_message_goes_on(
    pentad_up: Stage, budget: dict[str, int]
) -> None:
    replies = [call(("echo", {"text": "far"})), say("at last")]
    async with pentad_up.model(lambda _: replies.pop(0)) as model, pentad_up.line() as line, pentad_up.api() as api:
        await publish(pentad_up.redis_url, {"content": "go far", "session_id": line.session, "budget": budget})
        status = await line.until("task_status")
        waiting = await api.get(f"/v1/tasks/{status['task_id']}")
        transcript = await api.transcript(status["task_id"])
        assert (status["status"], status["reason"]) == ("waiting", "budget_exceeded")
        assert (waiting["status"], len(model.chats)) == ("waiting", 1)
        assert [m["role"] for m in transcript] == ["user", "assistant", "tool"]
        end = await line.turn("go on")
    print(f"budget {budget}: waited after {len(transcript)} messages, then {end['status']} in {end['steps']} steps")
    assert (end["status"], end["task_id"]) == ("completed", status["task_id"])
    assert ill_formed(model.chats[1]["messages"]) == []


async def test_the_turn_of_a_rejected_message_is_over_for_one_who_waits(pentad_up: Stage) -> None:
    async with pentad_up.api() as api:
        body = {"content": "hi", "session_id": "nobody", "task_id": "task-0-unknown"}
        turn = await api.post("/v1/messages?wait=20", body, status=200)
    assert turn["events"][0]["type"] == "message_routed"
    assert turn["events"][0]["decision"] == "rejected"
    assert turn["answer"] is None
