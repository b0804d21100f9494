"""What the events of a turn say of the instruction that it ran, and what may be asked for."""

from typing import Any

import pytest

from pentad.services.gateway.domain.frames import UnreadableError, read_run
from pentad.services.gateway.domain.instruction_run import run_of
from pentad.services.gateway.domain.waited_turn import TurnFilter, WaitedTurn
from tests.unit.gateway.test_waited_turn import ENDS, ROUTED, event

CALL = event("tool_call", tool_call_id="c1", tool="add", args={"a": 1})
RESULT = event("tool_result", tool_call_id="c1", tool="add", result="2", duration_ms=3)


def told(*events: dict[str, Any], checked: str | None = None) -> dict[str, Any]:
    """The run after these events, as its JSON."""
    turn = WaitedTurn("m1")
    assert [turn.feed(each) for each in (ROUTED, *events)][-1]
    assert turn.end is not None
    return run_of("it", turn, turn.end, "s1", checked).told()


def says(text: str) -> dict[str, Any]:
    return event("message", step=1, content=text)


def test_a_run_names_its_answer_its_calls_and_what_it_cost() -> None:
    usage = {"input_tokens": 5, "output_tokens": 7, "usd": 0.1}
    open_call = event("tool_call", tool_call_id="c2", tool="add", args="{")
    assert told(CALL, open_call, RESULT, says("two"), event("task_end", status="completed", usage=usage, steps=4)) == {
        "instruction": "it",
        "status": "completed",
        "content": "two",
        "tool_calls": [
            {"tool_call_id": "c1", "tool": "add", "args": {"a": 1}, "result": "2", "error": None, "duration_ms": 3}
            | {"at": "", "ref": None},
            {"tool_call_id": "c2", "tool": "add", "args": "{", "result": None, "error": None, "duration_ms": 0}
            | {"at": "", "ref": None},
        ],
        "usage": usage,
        "steps": 4,
        "session_id": "s1",
        "message_id": "m1",
        "task_id": "task-0-a",
    }


def test_the_data_of_a_json_instruction_is_its_value() -> None:
    run = told(says("2"), ENDS["completed"], checked="2")
    assert (run["data"], "content" in run) == (2, False)


@pytest.mark.parametrize("end", ["completed", "waiting"])
def test_what_was_not_checked_is_text_and_no_data(end: str) -> None:
    run = told(says('"two"'), ENDS[end])
    assert (run["content"], "data" in run) == ('"two"', False)


def test_a_run_that_waits_says_how_many_steps_it_has_made() -> None:
    asks = event("message", step=3, content="which?")
    assert (told(says("let me see"), asks, ENDS["waiting"])["steps"], told(ENDS["waiting"])["steps"]) == (3, 0)


def test_a_run_without_an_answer_says_why() -> None:
    error = event("error", code="model_error", message="the answer is wrong")
    assert told(error, event("task_end", status="failed", reason="model_error"))["error"] == {
        "code": "model_error",
        "message": "the answer is wrong",
    }
    assert told(event("task_end", status="failed", reason="step_limit"))["error"]["code"] == "step_limit"
    assert told(error, event("task_end", status="cancelled"))["error"]["code"] == "cancelled"
    assert told(ENDS["error"])["error"] == {"code": "internal", "message": "no"}
    rejected = WaitedTurn("m1")
    rejected.feed(event("message_routed", None, message_id="m1", decision="rejected"))
    assert rejected.end is not None
    run = run_of("it", rejected, rejected.end, "s1", None).told()
    assert (run["status"], run["error"]) == ("rejected", {"code": "bad_message", "message": "why"})


def test_the_events_of_one_turn_are_told_from_the_sessions_others() -> None:
    turn = TurnFilter("m1")
    other = event("message", "task-0-b", step=1, content="not ours")
    later = event("message_routed", message_id="m2", decision="append")
    events = [other, ROUTED, other, CALL, {"type": "of a newer version"}, RESULT, ENDS["completed"], later]
    assert [each for each in events if turn.takes(each)] == [ROUTED, CALL, RESULT, ENDS["completed"]]
    assert turn.over


def test_a_run_is_a_message_that_names_its_instruction() -> None:
    body = {"input": "hi", "session_id": "s1", "budget": {"steps": 2}, "state": {"n": 1}}
    assert read_run(body, "poet") == {
        "content": "hi",
        "instruction": "poet",
        "session_id": "s1",
        "budget": {"steps": 2},
        "state": {"n": 1},
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "input: a text"),
        ({"input": ""}, "input: a text"),
        ({"input": 7}, "input: a text"),
        ({"input": "x" * 65_537}, "input: a text"),
        ({"input": "hi", "sesion_id": "s1"}, "sesion_id: not known here; there are: budget, deadline, files, input"),
        ({"input": "hi", "instruction": "other"}, "instruction: not known here"),
        ({"input": "hi", "task_id": "task-0-a"}, "task_id: not known here"),
        ({"input": "hi", "x" * 100_000: 1}, "not known here"),
    ],
)
def test_a_body_that_runs_nothing_is_refused(body: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        read_run(body, "poet")
    assert problem in str(refused.value)
    assert len(str(refused.value)) < 300
