"""What a model may get wrong, and what a model server may do."""

import asyncio
import time
from typing import Any

import pytest

from tests.acceptance.conftest import STEP_TIMEOUT_S
from tests.support.clients.line import Line
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, cut, fail, say
from tests.support.processes.stage import Stage

pytestmark = pytest.mark.acceptance


def one_call(asked: Reply) -> Script:
    """Ask, then answer."""
    return lambda r: say("I see") if r["messages"][-1]["role"] == "tool" else asked


def to_hi(replies: list[Reply]) -> Script:
    """Give these replies to "hi", one after the other. What is asked beside it, by earlier tests, is answered too."""
    return lambda r: replies.pop(0) if is_hi(r) else say("nothing")


def is_hi(request: dict[str, Any]) -> bool:
    return bool(request["messages"][-1]["content"] in ("hi", "again"))


def asked_for_hi(model: ScriptedModel) -> list[dict[str, Any]]:
    """The requests of turns that began with "hi"."""
    return [request for request in model.chats if is_hi(request)]


@pytest.mark.parametrize(
    ("name", "arguments", "shown", "named"),
    [
        ("no_such_tool", {"x": 1}, {"x": 1}, ["no_such_tool", "calculator"]),
        ("calculator", '{"expression": ', '{"expression": ', ["calculator"]),
        ("calculator", "[1, 2]", "[1, 2]", ["calculator"]),
        ("calculator", '{"expression": NaN}', '{"expression": NaN}', ["calculator", "not JSON"]),
        ("calculator", '{"expression": 1e999}', '{"expression": 1e999}', ["calculator", "not JSON"]),
        ("calculator", {"expresion": "1+1"}, {"expresion": "1+1"}, ["calculator", "expression"]),
        ("calculator", {"expression": "1/0"}, {"expression": "1/0"}, ["calculator", "zero"]),
    ],
    ids=[
        "unknown tool",
        "arguments do not parse",
        "arguments are no object",
        "not a number",
        "no double",
        "arguments do not fit",
        "an exception",
    ],
)
async def test_a_wrong_call_is_one_result_with_its_error_and_the_model_is_told(
    pentad_up: Stage, name: str, arguments: Any, shown: Any, named: list[str]
) -> None:
    async with pentad_up.model(one_call(call((name, arguments)))) as model, pentad_up.line() as line:
        end = await line.turn("try it")
    (asked,), (result,) = line.answers("tool_call"), line.answers("tool_result")
    told = model.chats[1]["messages"]
    print(f"{name}({arguments!r}): {result['error']}")
    assert (asked["tool"], asked["args"]) == (name, shown)
    assert (result["tool_call_id"], result.get("result")) == (asked["tool_call_id"], None)
    assert all(word in result["error"] for word in named)
    assert all(word in told[-1]["content"] for word in named)
    assert ill_formed(told) == []
    assert end["status"] == "completed"


async def test_a_model_that_refuses_fails_the_turn_at_once(pentad_up: Stage) -> None:
    replies = [fail(400, message="this prompt is too long"), say("better now")]
    async with pentad_up.model(to_hi(replies)) as model, pentad_up.line() as line:
        end = await line.turn("hi")
        assert (end["status"], end["reason"], len(asked_for_hi(model))) == ("failed", "model_error", 1)
        error = line.answers("error")[0]
        async with pentad_up.api() as api:
            shown = await api.get(f"/v1/tasks/{end['task_id']}")
        after = await line.turn("again", count=2)
    why = error["message"]
    assert (end["detail"], shown["reason"], shown["detail"]) == (why, "model_error", why)
    print(f"400: {error['message']}")
    assert error["code"] == "model_error"
    assert "this prompt is too long" in error["message"]
    assert (after["status"], line.answers("message")[0]["content"]) == ("completed", "better now")


async def test_a_model_that_is_busy_is_asked_again_when_it_says(pentad_up: Stage) -> None:
    replies = [fail(429, retry_after=1), fail(503), say("now I can")]
    async with pentad_up.model(to_hi(replies)) as model, pentad_up.line() as line:
        begun = time.monotonic()
        end = await line.turn("hi")
        took = time.monotonic() - begun
    print(f"429 with Retry-After 1, then 503: answered after {took:.2f} s, asked {len(asked_for_hi(model))} times")
    assert (end["status"], end["steps"], len(asked_for_hi(model))) == ("completed", 1, 3)
    assert took >= 1
    assert [e["content"] for e in line.answers("message")] == ["now I can"]
    assert line.answers("error") == []


async def test_a_stream_that_is_cut_begins_anew_with_a_higher_attempt(pentad_up: Stage) -> None:
    replies = [cut(3, text="this was never finished"), cut(2, text="nor was this"), say("a whole answer", chunks=3)]
    async with pentad_up.model(to_hi(replies)) as model, pentad_up.line() as line:
        end = await line.turn("hi")
    whole = line.answers("message")[0]
    attempts = sorted({e["attempt"] for e in line.answers("content")})
    print(f"attempts seen in deltas {attempts}, message of attempt {whole['attempt']}")
    assert attempts[0] < whole["attempt"] == attempts[-1]
    assert [e["attempt"] for e in line.answers("content")] == sorted(e["attempt"] for e in line.answers("content"))
    assert text_of(line, whole["attempt"]) == whole["content"] == "a whole answer"
    assert (end["status"], end["steps"], len(asked_for_hi(model))) == ("completed", 1, 3)
    assert [m["role"] for m in asked_for_hi(model)[2]["messages"]] == ["system", "user"], "a lost attempt left a trace"


def text_of(line: Line, attempt: int) -> str:
    """What a client has put together of one attempt, by the offsets."""
    text = ""
    for delta in line.answers("content"):
        if delta["attempt"] == attempt:
            assert delta["offset"] == len(text)
            text += delta["content"]
    return text


async def test_a_model_that_is_cut_every_time_fails_the_turn(strict: Stage) -> None:
    async with strict.model(lambda _: cut(3)) as model, strict.line() as line:
        end = await line.turn("hi")
    print(f"cut {len(model.chats)} times, then {end['status']} {end['reason']}")
    assert (end["status"], end["reason"], len(model.chats)) == ("failed", "model_error", 2)


async def test_a_model_that_stalls_fails_the_turn_at_the_steps_time_limit(strict: Stage) -> None:
    stalled = say("so far and no further", chunks=4, wait=asyncio.Event(), wait_after=3)
    async with strict.model(lambda _: stalled) as model, strict.line() as line:
        begun = time.monotonic()
        end = await line.turn("hi")
        took = time.monotonic() - begun
    print(f"time limit {STEP_TIMEOUT_S} s: failed after {took:.2f} s, asked {len(model.chats)} times")
    assert (end["status"], end["reason"]) == ("failed", "model_error")
    assert took > STEP_TIMEOUT_S - 0.1
    assert [e["code"] for e in line.answers("error")] == ["model_error"]


async def test_a_tool_that_nobody_finishes_is_given_up_at_the_steps_time_limit(strict: Stage, tmp_path: Any) -> None:
    asked = call(("hold", {"mine": str(tmp_path / "begun"), "until": [str(tmp_path / "never")], "answer": ""}))
    async with strict.model(one_call(asked)) as model, strict.line() as line:
        end = await line.turn("wait")
    error = line.answers("tool_result")[0]["error"]
    print(f"the call was given up: {error}")
    assert "time limit" in error
    assert "time limit" in model.chats[1]["messages"][-1]["content"]
    assert end["status"] == "completed"
