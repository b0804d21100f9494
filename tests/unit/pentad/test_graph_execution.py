"""How a run of a graph is begun from a program: its message and its state, and what neither may be."""

from typing import Any

import pytest

import pentad
from pentad.client.callbacks import RunCallbacks, RunTelling
from pentad.client.graph_execution import content_of
from pentad.client.turns import message_of
from pentad.contracts.events import event_adapter


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("content", "state", "expected"),
    [
        ("hi", {"n": 1}, ("hi", {"n": 1})),
        (None, {"n": 1, "context": [user("hi")], "history": []}, ("hi", {"n": 1})),
        (None, {"context": []}, ("Writes.", {})),
        (None, None, ("Writes.", {})),
    ],
)
def test_a_run_begins_with_one_message_and_a_state(content: Any, state: Any, expected: Any) -> None:
    assert content_of(content, state, "Writes.") == expected


def test_a_graph_without_a_description_begins_nevertheless() -> None:
    assert content_of(None, {}, "") == ("Begin.", {})


@pytest.mark.parametrize(
    ("content", "state", "problem"),
    [
        (None, {"history": [user("before")]}, "a new run has no earlier messages: name in session_id="),
        (None, {"context": [user("before"), user("now")]}, "a new run has no earlier messages"),
        ("hi", {"context": [user("now")]}, "not both"),
        (None, {"context": [{"role": "assistant", "content": "now"}]}, "one message of a user"),
        (None, {"context": [user(["now"])]}, "one message of a user"),
        (None, {"context": "now"}, "context is a list of messages"),
        (None, {"history": {"role": "user"}}, "history is a list of messages"),
        (None, {"context": ["now"]}, "context is a list of messages"),
    ],
)
def test_messages_that_a_new_run_cannot_have_are_refused(content: Any, state: Any, problem: str) -> None:
    with pytest.raises(pentad.Refused, match=problem):
        content_of(content, state, "Writes.")


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ([1], "an object is expected"),
        ("{}", "an object is expected"),
        ({1: "a"}, "the keys of which are texts"),
        ({"a": object()}, "cannot be written as JSON"),
        ({"a": float("nan")}, "cannot be written as JSON"),
        ({"a": {1, 2}}, "cannot be written as JSON"),
        ({"a": "\ud800"}, "cannot be written as JSON"),
        ({"a": deep(100_000)}, "cannot be written as JSON"),
        ({"a": "x" * 65_529}, "65,537 bytes as JSON, and 65,536 at most: send a reference"),
        ({"a": "é" * 40_000}, "80,008 bytes as JSON"),
    ],
)
def test_a_state_that_is_none_is_refused_before_it_is_sent(state: Any, problem: str) -> None:
    with pytest.raises(pentad.Refused, match=problem) as refused:
        message_of("hi", {"state": state})
    assert len(str(refused.value)) < 400


def test_a_state_of_exactly_64_kib_goes_with_its_message() -> None:
    state = {"a": "x" * 65_528}
    assert message_of("hi", {"state": state, "instruction": "g"})["state"] == state
    assert "state" not in message_of("hi", {"state": None})


async def test_texts_of_tasks_that_speak_at_once_are_told_whole_beside_the_runs_own() -> None:
    told: list[str] = []
    telling = RunTelling(RunCallbacks(on_text=told.append))

    def event(kind: str, task: str, parent: str | None = None, **fields: Any) -> Any:
        about = {"event_id": "e", "at": "", "tenant_id": "t", "session_id": "s", "task_id": task}
        return event_adapter.validate_python(about | {"type": kind, "parent_task_id": parent, "step": 1} | fields)

    for one in (
        event("content", "task-0-a", attempt=1, offset=0, content="ro"),
        event("content", "task-0-b", "task-0-a", attempt=1, offset=0, content="br"),
        event("message", "task-0-b", "task-0-a", attempt=1, content="branch"),
        event("message", "task-0-a", attempt=1, content="root"),
    ):
        await telling.tell(one)
    assert told == ["ro", "branch", "ot"]


def test_what_a_run_waits_for_is_told_with_whom_to_answer() -> None:
    asked = pentad.RunWaits("task-0-a", "task-0-b", "question", "Who?")
    assert (
        str(asked) == "run task-0-a (its task task-0-b) asks: Who?; say more by add_message(), then call result() again"
    )
    assert "has stopped: budget_exceeded" in str(pentad.RunWaits("task-0-a", "task-0-a", "budget_exceeded", None))
