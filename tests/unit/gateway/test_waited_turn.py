"""Where a message's turn ends, and what a client may say."""

from typing import Any

import pytest

from pentad.services.gateway.domain.frames import UnreadableError, read_message, read_object
from pentad.services.gateway.domain.waited_turn import WaitedTurn

T = "task-0-a"


_FIELDS: dict[str, dict[str, Any]] = {
    "message_routed": {"confidence": 1.0, "reason": "why"},
    "message": {"attempt": 1},
    "content": {"attempt": 1, "offset": 0, "index": 0},
    "error": {"message": "no"},
}


def event(kind: str, task: str | None = T, **fields: Any) -> dict[str, Any]:
    """An event of a session."""
    about = {"event_id": "e", "at": "", "tenant_id": "default", "session_id": "s", "task_id": task}
    return about | {"type": kind} | _FIELDS.get(kind, {}) | fields


ROUTED = event("message_routed", message_id="m1", decision="append")

ENDS = {
    "completed": event("task_end", status="completed"),
    "failed": event("task_end", status="failed"),
    "cancelled": event("task_end", status="cancelled"),
    "waiting": event("task_status", status="waiting"),
    "error": event("error", message_id="m1", code="internal"),
}


@pytest.mark.parametrize("status", ENDS)
def test_a_turn_ends_with_its_tasks_next_end(status: str) -> None:
    tracker = WaitedTurn("m1")
    before = [event("task_end", status="completed"), ROUTED, event("message", step=1, content="a"), event("task_start")]
    elsewhere = [event("task_end", "task-0-b", status="failed"), event("task_status", status="active")]
    assert not any(map(tracker.feed, before + elsewhere))
    assert tracker.feed(ENDS[status])
    assert (tracker.status, tracker.answer, tracker.task_id) == (status, "a", T)


def test_of_a_turn_that_the_message_was_queued_behind_nothing_is_kept() -> None:
    tracker = WaitedTurn("m1")
    before = event("task_end", status="completed", queues=True, correlation_id="m0")
    for one in (ROUTED, event("message", step=1, content="another's"), before, event("task_start", goal="g")):
        assert not tracker.feed(one)
    assert tracker.answer is None
    assert tracker.feed(event("task_end", status="completed", queues=True, correlation_id="m1"))
    assert [each["type"] for each in tracker.events] == ["message_routed", "task_start", "task_end"]


def test_the_answer_is_that_of_the_task_itself_and_events_of_started_tasks_are_kept() -> None:
    tracker = WaitedTurn("m1")
    below = {"parent_task_id": T, "correlation_id": "m1"}
    delta = event("content", step=1, content="fi")
    begun = [ROUTED, delta, event("content", "task-0-b", step=1, content="br", **below)]
    branch = [event("message", "task-0-b", step=1, content="branch", **below)]
    branch += [event("task_end", "task-0-b", status="completed", **below)]
    for one in [*begun, *branch]:
        assert not tracker.feed(one)
    assert delta in tracker.events, "the message of another task says nothing of this one's step"
    assert tracker.feed(event("message", step=1, content="first")) is False
    assert tracker.feed(event("task_end", status="completed"))
    assert (tracker.answer, tracker.status, tracker.task_id) == ("first", "completed", T)
    assert [each["type"] for each in tracker.events] == ["message_routed", "message", "task_end", "message", "task_end"]


def test_the_question_of_a_started_task_is_the_answer() -> None:
    tracker = WaitedTurn("m1")
    below = {"parent_task_id": T, "correlation_id": "m1"}
    tracker.feed(ROUTED)
    tracker.feed(event("message", "task-0-b", step=1, content="Who?", **below))
    assert tracker.feed(event("task_status", "task-0-b", status="waiting", reason="question", **below))
    assert (tracker.answer, tracker.status, tracker.task_id) == ("Who?", "waiting", T)


def test_a_rejected_message_ends_at_once() -> None:
    tracker = WaitedTurn("m1")
    assert not tracker.feed(event("message_routed", message_id="m2", decision="rejected"))
    assert tracker.feed(event("message_routed", None, message_id="m1", decision="rejected"))
    assert tracker.result("s")["answer"] is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_a_client_sends_holds_no_number_that_json_has_not(number: str) -> None:
    with pytest.raises(UnreadableError, match="not JSON"):
        read_object(f'{{"content":"hi","metadata":{{"a":[{number}]}}}}')


def test_an_error_that_names_another_message_is_not_ours() -> None:
    tracker = WaitedTurn("m1")
    tracker.feed(ROUTED)
    assert not tracker.feed(event("error", message_id="m2", code="internal"))
    assert not tracker.feed(event("error", code="tool_error"))


def test_the_turns_events_leave_out_what_its_messages_say() -> None:
    tracker = WaitedTurn("m1")
    for e in (ROUTED, event("content", step=1, content="a"), event("message", step=1, content="a"), ENDS["completed"]):
        tracker.feed(e)
    assert [e["type"] for e in tracker.events] == ["message_routed", "message", "task_end"]
    tracker.feed(event("task_start"))
    assert len(tracker.events) == 3


def test_tenant_and_session_are_never_the_clients() -> None:
    message = read_message(
        {"content": "x", "tenant_id": "evil", "session_id": "evil", "version": 9}, "acme", "s1", "m-1"
    )
    assert (message.tenant_id, message.session_id) == ("acme", "s1")


@pytest.mark.parametrize("raw", ["", "[]", "1", '{"a":1}x', "nul", "[" * 100_000, '{"a":"\\ud800"}', b"\xff"])
def test_what_is_no_object_is_refused(raw: str | bytes) -> None:
    with pytest.raises(UnreadableError):
        read_object(raw)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": ""},
        {"content": "x" * 65_537},
        {"content": "x", "message_id": "a b"},
        {"content": "x", "message_id": "a\n"},
        {"content": "x", "task_id": "../x"},
        {"content": "x", "metadata": {"a": 1}},
        {"content": "x", "deadline": "tomorrow"},
        {"content": "x", "budget": {"tokens": -1}},
    ],
)
def test_a_wrong_message_says_which_field(body: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match=":"):
        read_message(body, "t", "s", "m-1")
