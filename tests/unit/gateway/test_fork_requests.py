"""What a client may ask of a fork, and which calls it is told of."""

from typing import Any

import pytest

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Manifest, StepRecord, Task
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.gateway.domain.fork import (
    SharedPast,
    TaskPast,
    UnforkableError,
    later_effects,
    read_fork,
    shared_past,
)
from pentad.services.gateway.domain.frames import UnreadableError

STEP = StepRecord(
    step=1,
    attempt=1,
    at="2030-01-01T00:00:00Z",
    finish_reason="stop",
    usage=TaskUsage(),
    manifest=Manifest(messages=(0, 1), instruction="executor", tools="", model="m", digest="d"),
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "step:"),
        ({"step": None}, "step:"),
        ({"step": True}, "step:"),
        ({"step": -1}, "step:"),
        ({"step": 1 << 31}, "step:"),
        ({"step": 1.0}, "step:"),
        ({"step": "1"}, "step:"),
        ({"step": 1, "content": ""}, "content:"),
        ({"step": 1, "content": "x" * (MAX_CONTENT + 1)}, "content:"),
        ({"step": 1, "content": ["x"]}, "content:"),
        ({"step": 1, "model": "a b"}, "model:"),
        ({"step": 1, "model": ""}, "model:"),
        ({"step": 1, "instruction": 7}, "instruction:"),
        ({"step": 1, "instruction": "x" * 129}, "instruction:"),
        ({"step": 1, "message_id": "a b"}, "message_id:"),
        ({"step": 1, "message_id": {}}, "message_id:"),
        ({"step": 1, "replace": True}, "replace:"),
        ({"step": 0, "content": "x", "replace": True}, "replace:"),
        ({"step": 1, "content": "x", "replace": "yes"}, "replace:"),
        ({"step": 1, "session_id": "s2"}, "session_id: not known here"),
    ],
)
def test_what_is_no_request_is_refused_by_its_field(body: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreadableError, match=says):
        read_fork(body, "m1")


def test_each_part_of_a_request_counts_in_its_digest_and_its_id_does_not() -> None:
    whole = {"step": 3, "content": "c", "instruction": "i", "model": "m"}
    asked = read_fork(whole | {"message_id": "mine"}, "m1")
    assert (asked.step, asked.content, asked.instruction, asked.model, asked.message_id) == (3, "c", "i", "m", "mine")
    others = [read_fork({**whole, name: value}, "m1") for name, value in
              (("step", 4), ("content", "d"), ("instruction", "j"), ("model", "n"), ("replace", True))]  # fmt: skip
    assert len({asked.digest, *(each.digest for each in others)}) == 6
    assert read_fork(whole, "m1").digest == asked.digest
    assert read_fork({"step": 0}, "m1").message_id == "m1"


def _past(*entries: dict[str, Any]) -> TaskPast:
    """A task of two steps, of which the second has the next question in its prompt."""
    task = Task.model_validate(
        {"task_id": "task-0-a", "session_id": "s", "status": "completed", "goal": "g", "instruction": "executor"}
        | {"created_at": STEP.at, "updated_at": STEP.at, "steps": 2, "usage": {}}
    )
    second = STEP.model_copy(
        update={"step": 2, "manifest": STEP.manifest.model_copy(update={"messages": (0, len(entries) - 1)})}
    )
    return TaskPast(task, [STEP, second], entries)


def test_a_replacing_message_stands_behind_the_answer_alone() -> None:
    asks: dict[str, Any] = {"role": "user", "content": "q"}
    answers: dict[str, Any] = {"role": "assistant", "content": "a", "step": 1}
    more: list[dict[str, Any]] = [{"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2", "step": 2}]
    request = read_fork({"step": 1, "content": "edited", "replace": True}, "m1")
    shared = shared_past(_past(asks, answers, *more), request)
    assert shared.entries == (asks, answers)
    assert (shared.later, shared.open, len(shared.steps)) == (tuple(more), (), 1)
    plain = shared_past(_past(asks, answers, *more), read_fork({"step": 1, "content": "more"}, "m1"))
    assert plain.entries == (asks, answers, more[0])
    calling = answers | {"tool_calls": [{"id": "c"}]}
    with pytest.raises(UnforkableError, match="has not ended with an answer"):
        shared_past(_past(asks, calling, *more), request)


def test_calls_are_told_whose_effects_may_have_happened() -> None:
    def said(*calls: tuple[str, str]) -> dict[str, Any]:
        made = [{"id": call, "function": {"name": tool, "arguments": "{}"}} for call, tool in calls]
        return {"role": "assistant", "tool_calls": made}

    specs = {
        name: ToolSpec(name=name, description="d", parameters={}, effect=effect)
        for name, effect in (("look", Effect.PURE), ("put", Effect.IDEMPOTENT), ("mail", Effect.UNSAFE))
    }
    later = [
        said(("1", "look"), ("2", "put")),
        {"role": "tool", "tool_call_id": "1"},
        said(("3", "mail"), ("4", "gone")),
    ]
    shared = SharedPast([STEP], [], [*later, said(("5", "ask_user"))], STEP)
    assert [(each.tool_call_id, each.effect) for each in later_effects(shared, specs)] == [
        ("2", "idempotent"), ("3", "unsafe"), ("4", "unsafe")
    ]  # fmt: skip
    many = SharedPast([STEP], [], [said(*((str(n), "mail") for n in range(500)))], STEP)
    assert len(later_effects(many, specs)) == 100
