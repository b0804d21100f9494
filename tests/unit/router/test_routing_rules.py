"""Each message goes where the rules say, and the reason names the rule."""

from dataclasses import replace
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import TaskStatus
from pentad.contracts.ids import rfc3339
from pentad.services.router.domain.rules import Question, Route, View, by_recency, decide, goal_of
from pentad.shared.actors.headers import TaskHeader

NOW, GRACE = 1_000_000, 300_000


def task(name: str, status: TaskStatus, ended_at: int = NOW) -> TaskHeader:
    return TaskHeader("default", name, "s1", status, ended_at=ended_at)


def view(task_id: str | None = None, **given: Any) -> View:
    message = InboundMessage(content="hi", session_id="s1", task_id=task_id)
    return replace(View(message=message, live=(), done=None, now=NOW, grace_ms=GRACE), **given)


def routed(seen: View) -> Route:
    """The decision of the rules alone."""
    decided = decide(seen)
    assert isinstance(decided, Route)
    return decided


@pytest.mark.parametrize(
    ("seen", "decision", "target"),
    [
        (view(), "new", None),
        (view(live=(task("a", "active"),)), "append", "a"),
        (view(live=(task("a", "waiting"),)), "append", "a"),
        (view(live=(task("a", "active"),), done=task("b", "completed")), "append", "a"),
        (view(live=(task("a", "cancelled"),)), "new", None),
        # The session was read before the task ended, or before a failed one went on with what had come.
        (view(live=(task("a", "completed"),)), "reopen", "a"),
        (view(live=(task("a", "completed"),), done=task("b", "completed")), "reopen", "a"),
        (view(live=(task("a", "cancelled"),), done=task("b", "completed")), "new", None),
        (view(done=task("b", "active")), "append", "b"),
        (view(done=task("b", "completed")), "reopen", "b"),
        (view(done=task("b", "completed", NOW - GRACE)), "reopen", "b"),
        (view(done=task("b", "completed", NOW - GRACE - 1)), "new", None),
        (view(done=task("b", "failed")), "new", None),
        (view(done=task("b", "cancelled")), "new", None),
    ],
)
def test_without_a_name_it_is_the_live_task_or_the_one_that_ended_last(
    seen: View, decision: str, target: str | None
) -> None:
    route = routed(seen)
    assert (route.decision, route.task.task if route.task else None) == (decision, target)


@pytest.mark.parametrize(
    ("named", "archived", "decision", "error"),
    [
        (task("t", "active"), False, "append", None),
        (task("t", "waiting"), False, "append", None),
        (task("t", "completed", 0), False, "reopen", None),
        (task("t", "failed", 0), False, "reopen", None),
        (task("t", "cancelled"), False, "rejected", ErrorCode.NOT_ALLOWED),
        (None, True, "new", None),
        (None, False, "rejected", ErrorCode.UNKNOWN_TASK),
    ],
)
def test_an_explicit_task_is_followed_by_its_status(
    named: TaskHeader | None, archived: bool, decision: str, error: ErrorCode | None
) -> None:
    route = routed(view("t", named=named, archived=archived, live=(task("other", "active"),)))
    assert (route.decision, route.error, route.task) == (decision, error, named if error is None else None)
    assert route.continues == ("record" if archived else "session")


def test_an_unknown_instruction_is_refused_with_those_that_are_known() -> None:
    message = InboundMessage(content="hi", instruction="poet")
    route = routed(view(message=message, live=(task("a", "active"),)))
    assert (route.decision, route.error) == ("rejected", ErrorCode.BAD_MESSAGE)
    assert "'poet'" in route.reason
    assert "executor" in route.reason


@pytest.mark.parametrize(
    ("deadline", "decision"), [(0, "new"), (NOW - 1, "rejected"), (NOW, "rejected"), (NOW + 1, "new")]
)
def test_a_deadline_that_has_passed_is_refused(deadline: int, decision: str) -> None:
    given = rfc3339(deadline) if deadline else None
    route = routed(view(message=InboundMessage(content="hi", session_id="s1", deadline=given)))
    assert route.decision == decision
    assert (route.error is ErrorCode.DEADLINE_EXCEEDED) is (decision == "rejected")


def test_the_candidates_are_named() -> None:
    route = routed(view(live=(task("a", "active"),), done=task("b", "completed")))
    assert route.candidates == ["a", "b"]


def test_what_the_rules_leave_open_is_a_question_that_recency_can_answer() -> None:
    live = (task("b", "active"), task("a", "waiting"), task("c", "completed"))
    question = decide(view(live=live, done=task("d", "active")))
    assert isinstance(question, Question)
    assert [each.task for each in question.candidates] == ["b", "a", "d"]
    route = by_recency(question)
    assert (route.decision, route.task, route.candidates) == ("append", live[0], ["b", "a", "d"])
    assert 0 < route.confidence < routed(view(live=live[:1])).confidence == 1.0


@pytest.mark.parametrize(("length", "kept"), [(1, 1), (500, 500), (501, 500), (10_000, 500)])
def test_a_goal_fits_into_a_header(length: int, kept: int) -> None:
    goal = goal_of("x" * length)
    assert len(goal) == kept
    assert goal.endswith("…") is (length > 500)


def test_a_named_task_that_cannot_be_read_is_refused_with_the_reason() -> None:
    route = routed(view("t", damaged="the record of task t cannot be read: it is empty"))
    assert (route.decision, route.error) == ("rejected", ErrorCode.UNKNOWN_TASK)
    assert route.reason == "the record of task t cannot be read: it is empty"
