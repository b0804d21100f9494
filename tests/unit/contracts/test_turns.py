"""When a turn ends: every way of INTERFACES, and what must not end it."""

from typing import Any

import pytest

from pentad.client.text import answer_in
from pentad.contracts.events import Snapshot, event_adapter
from pentad.contracts.turns import TurnEnd, TurnTracker

MINE, TASK = "m-1", "task-0-a"


def event(kind: str, **fields: Any) -> Any:
    about = {"event_id": "e", "at": "", "tenant_id": "default", "session_id": "s1"}
    return event_adapter.validate_python(about | {"type": kind} | fields)


def routed(decision: str = "new", message_id: str = MINE, task_id: str = TASK) -> Any:
    return event(
        "message_routed", decision=decision, message_id=message_id, task_id=task_id, confidence=1.0, reason="why"
    )


def ended(status: str = "completed", task_id: str = TASK, reason: str = "") -> Any:
    return event("task_end", status=status, task_id=task_id, reason=reason)


def queued_end(of: str, status: str = "completed") -> Any:
    return event("task_end", status=status, task_id=TASK, queues=True, correlation_id=of)


def status(status: str, task_id: str = TASK, reason: str = "") -> Any:
    return event("task_status", status=status, task_id=task_id, reason=reason)


def error(message_id: str | None = MINE, code: str = "busy", task_id: str | None = None) -> Any:
    return event("error", code=code, message="no", message_id=message_id, task_id=task_id)


def moved(message_id: str = MINE) -> Any:
    told = {"message_id": message_id, "from_task_id": TASK, "to_task_id": "task-0-b"}
    return event("message_moved", task_id=TASK, **told)


def snapshot(task_status: str, message_id: str = MINE) -> Any:
    tasks = [{"task_id": "task-0-z", "status": "failed"}, {"task_id": TASK, "status": task_status}]
    return event("snapshot", tasks=tasks, messages=[{"role": "user", "message_id": message_id, "task_id": TASK}])


ENDS: list[tuple[str, list[Any], TurnEnd | None]] = [
    ("answer", [routed(), ended()], TurnEnd("completed")),
    ("failure", [routed(), ended("failed", reason="model_error")], TurnEnd("failed", "model_error")),
    ("cancel", [routed(), ended("cancelled")], TurnEnd("cancelled")),
    ("question", [routed("append"), status("waiting", reason="question")], TurnEnd("waiting", "question")),
    ("rejected", [routed("rejected")], TurnEnd("rejected", "why")),
    ("error before routing", [error()], TurnEnd("error", "busy: no")),
    ("error after routing", [routed(), error(code="budget_exceeded")], TurnEnd("error", "budget_exceeded: no")),
    ("the end of a turn that mine waits behind", [routed("append"), queued_end("m-0")], None),
    ("its failure", [routed("append"), queued_end("m-0", "failed")], None),
    ("my own turn's end", [routed("append"), queued_end("m-0"), queued_end(MINE)], TurnEnd("completed")),
    ("a cancel of it all", [routed("append"), ended("cancelled")], TurnEnd("cancelled")),
    ("first end counts", [routed(), status("waiting", reason="paused"), ended()], TurnEnd("waiting", "paused")),
    ("end before routing is of an earlier turn", [ended()], None),
    ("end of another task", [routed(), ended(task_id="task-0-b")], None),
    ("another task waits", [routed(), status("waiting", task_id="task-0-b")], None),
    ("tools run", [routed(), status("active"), status("stale"), status("pending")], None),
    ("another message is rejected", [routed(), routed("rejected", "m-2")], None),
    ("another message fails", [routed(), error("m-2", task_id=TASK)], None),
    ("an error of the task that names no message", [routed(), error(None, "tool_error", TASK)], None),
    ("another message's routing is not mine", [routed(message_id="m-2"), ended()], None),
    ("moved away, and its first task ends", [routed(), moved(), ended("cancelled")], None),
    ("moved, and the other task answers", [routed(), moved(), ended(task_id="task-0-b")], TurnEnd("completed")),
    ("another message is moved", [routed(), moved("m-2"), ended()], TurnEnd("completed")),
    ("cursor expired", [routed(), error(None, "cursor_expired")], None),
    ("snapshot of an ended task", [routed(), snapshot("completed")], TurnEnd("completed")),
    ("snapshot of a waiting task", [routed(), snapshot("waiting")], TurnEnd("waiting")),
    ("snapshot of a running task", [routed(), snapshot("active")], None),
    ("snapshot tells where the message went", [snapshot("active"), ended()], TurnEnd("completed")),
    ("snapshot of others", [snapshot("completed", "m-2")], None),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_a_turn_ends_at_the_first_of_its_ends(events: list[Any], expected: TurnEnd | None) -> None:
    turn = TurnTracker(MINE)
    for one in events:
        turn = turn.after(one)
    assert turn.end == expected


MOVES: list[tuple[str, list[Any], TurnEnd | None]] = [
    ("the other task answers", [moved(), ended(task_id="task-0-b")], TurnEnd("completed")),
    ("the first task goes on and ends before", [ended(), moved(), ended()], None),
    ("another message is moved", [moved("m-2"), ended()], None),
    ("it was refused", [error(None, "not_allowed", TASK)], TurnEnd("error", "not_allowed: no")),
    ("another task refuses something", [error(None, "not_allowed", "task-0-z"), ended()], None),
    ("cursor expired", [error(None, "cursor_expired")], None),
    ("a snapshot of before", [snapshot("completed"), moved(), ended(task_id="task-0-b")], TurnEnd("completed")),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES])
def test_the_turn_of_a_message_that_is_asked_to_move_begins_when_it_has(
    events: list[Any], expected: TurnEnd | None
) -> None:
    turn = TurnTracker(MINE, leaves=TASK)
    for one in events:
        turn = turn.after(one)
    assert turn.end == expected


def test_a_snapshot_tells_that_it_has_moved() -> None:
    assert TurnTracker(MINE, leaves="task-0-y").after(snapshot("completed")).end == TurnEnd("completed")


def test_a_turn_whose_routing_was_lost_is_found_by_its_correlation() -> None:
    start = event("task_start", goal="g", task_id=TASK, correlation_id=MINE)
    assert TurnTracker(MINE).after(start).after(ended()).end == TurnEnd("completed")


def test_who_follows_a_task_and_no_message_is_told_of_its_first_end() -> None:
    assert TurnTracker("", task_id=TASK).after(queued_end("m-0")).end == TurnEnd("completed")


@pytest.mark.parametrize(
    ("outcome", "ok"),
    [("completed", True), ("waiting", True), ("failed", False), ("cancelled", False), ("rejected", False)],
)
def test_only_an_answer_or_a_question_is_a_good_end(outcome: Any, ok: bool) -> None:
    assert TurnEnd(outcome).ok is ok


def test_a_snapshot_gives_the_last_answer_of_the_task() -> None:
    said = [("task-0-a", "one"), ("task-0-a", "two"), ("task-0-b", "other")]
    messages = [{"role": "assistant", "task_id": task, "content": text} for task, text in said]
    found = event("snapshot", tasks=[], messages=messages)
    assert isinstance(found, Snapshot)
    assert (answer_in(found, "task-0-a"), answer_in(found, "task-0-c")) == ("two", "")


BRANCH, DEEP = "task-0-b", "task-0-d"
QUESTION = TurnEnd("waiting", "question")


def below(kind: str, task_id: str = BRANCH, parent: str = TASK, of: str = MINE, **fields: Any) -> Any:
    """An event of a task that another has started."""
    return event(kind, task_id=task_id, parent_task_id=parent, correlation_id=of, **fields)


def asks(task_id: str = BRANCH, parent: str = TASK, of: str = MINE) -> Any:
    return below("task_status", task_id, parent, of, status="waiting", reason="question")


def starts(task_id: str = BRANCH, parent: str = TASK, of: str = MINE) -> Any:
    return below("task_start", task_id, parent, of, goal="g", node="b")


TREES: list[tuple[str, list[Any], TurnEnd | None]] = [
    ("a branch's end", [routed(), starts(), below("task_end", status="completed")], None),
    ("a branch's failure", [routed(), starts(), below("task_end", status="failed")], None),
    ("the end of the task itself", [routed(), starts(), ended()], TurnEnd("completed")),
    ("a branch asks", [routed(), starts(), asks()], QUESTION),
    ("a branch is paused", [routed(), below("task_status", status="waiting", reason="paused")], None),
    ("a branch of another turn asks", [routed(), asks("task-0-x", "task-0-w", "m-0")], None),
    ("a branch below a branch asks", [routed(), starts(), asks(DEEP, BRANCH)], QUESTION),
    ("one that an answer to another has let begin asks", [routed(), asks(of="m-0")], QUESTION),
    ("so does one below it", [routed(), starts(of="m-0"), asks(DEEP, BRANCH, "m-0")], QUESTION),
    (
        "a name that is used again after its end",
        [routed(), starts(of="m-0"), below("task_end", of="m-0", status="completed"), asks(DEEP, BRANCH, "m-0")],
        None,
    ),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in TREES], ids=[row[0] for row in TREES])
def test_tasks_that_a_turns_task_has_started_end_it_only_by_asking(events: list[Any], expected: TurnEnd | None) -> None:
    turn = TurnTracker(MINE)
    for one in events:
        turn = turn.after(one)
    assert turn.end == expected
    assert turn.task_id == TASK


def test_events_of_started_tasks_belong_to_the_turn_and_those_of_other_tasks_do_not() -> None:
    turn = TurnTracker(MINE).after(routed()).after(starts())
    said: dict[str, Any] = {"step": 1, "attempt": 1, "content": "x"}
    assert turn.concerns(below("message", **said))
    assert turn.concerns(below("message", DEEP, BRANCH, "m-0", **said))
    assert not turn.concerns(below("message", DEEP, "task-0-w", "m-0", **said))
    assert not turn.concerns(event("message", task_id="task-0-w", correlation_id="m-0", **said))


def test_a_message_to_a_branch_follows_the_tasks_above_it_after_its_end_two_levels_deep() -> None:
    turn = TurnTracker(MINE).after(routed("append", task_id=DEEP))
    turn = turn.after(below("task_end", DEEP, BRANCH, status="completed"))
    assert (turn.task_id, turn.end) == (BRANCH, None)
    assert turn.concerns(below("message", BRANCH, TASK, "m-0", step=1, attempt=1, content="x"))
    turn = turn.after(below("task_end", BRANCH, TASK, "m-0", status="completed"))
    assert (turn.task_id, turn.end) == (TASK, None)
    assert turn.after(ended()).end == TurnEnd("completed")


def test_a_message_to_a_branch_ends_as_waiting_when_that_asks_again() -> None:
    turn = TurnTracker(MINE).after(routed("append", task_id=DEEP))
    assert turn.after(asks(DEEP, BRANCH)).end == QUESTION
    assert turn.after(asks("task-0-e", BRANCH, "m-0")).end is None, "its neighbours are no part of it yet"
