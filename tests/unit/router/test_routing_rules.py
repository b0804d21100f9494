"""Each message goes where the rules say, and the reason names the rule."""

from dataclasses import replace
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import TaskStatus
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import Instruction
from pentad.services.router.domain.control_words import control_answer, control_of
from pentad.services.router.domain.rules import Question, Route, View, decide, kept_in_view
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.opening import goal_of
from pentad.shared.actors.session_header import RECENT_TASKS
from pentad.shared.instructions.builtin import BUILT_IN

NOW, GRACE = 1_000_000, 300_000


POET = Instruction(name="poet", system_prompt="Rhyme.")


def task(name: str, status: TaskStatus, ended_at: int = NOW) -> TaskHeader:
    return TaskHeader("default", name, "s1", status, ended_at=ended_at)


def view(task_id: str | None = None, **given: Any) -> View:
    message = InboundMessage(content="hi", session_id="s1", task_id=task_id)
    seen = View(message=message, runnables=BUILT_IN, now=NOW, grace_ms=GRACE, weighed=False)
    return replace(seen, **given)


def routed(seen: View) -> Route:
    """The decision of the rules alone."""
    decided = decide(seen)
    assert isinstance(decided, Route)
    return decided


@pytest.mark.parametrize(
    ("known", "decision", "target"),
    [
        ((), "new", None),
        ((task("a", "active"),), "append", "a"),
        ((task("a", "waiting"),), "append", "a"),
        ((task("a", "active"), task("b", "completed")), "append", "a"),
        ((task("b", "completed"), task("a", "active")), "append", "a"),
        ((task("a", "cancelled"),), "new", None),
        ((task("a", "completed"),), "reopen", "a"),
        ((task("a", "completed"), task("b", "completed")), "reopen", "a"),
        ((task("a", "cancelled"), task("b", "completed")), "reopen", "b"),
        ((task("b", "completed", NOW - GRACE),), "reopen", "b"),
        ((task("b", "completed", NOW - GRACE - 1),), "new", None),
        ((task("b", "failed"),), "new", None),
    ],
)
def test_where_nothing_is_weighed_it_is_the_task_that_was_spoken_to_last(
    known: tuple[TaskHeader, ...], decision: str, target: str | None
) -> None:
    route = routed(view(known=known))
    assert (route.decision, route.task.task_id if route.task else None) == (decision, target)


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
    route = routed(view("t", named=named, archived="executor" if archived else "", known=(task("other", "active"),)))
    assert (route.decision, route.error, route.task) == (decision, error, named if error is None else None)
    assert route.continues == ("record" if archived else "session")


def test_an_unknown_instruction_is_refused_with_those_that_are_known() -> None:
    message = InboundMessage(content="hi", instruction="poet")
    route = routed(view(message=message, known=(task("a", "active"),)))
    assert (route.decision, route.error) == ("rejected", ErrorCode.BAD_MESSAGE)
    assert "'poet'" in route.reason
    assert "executor" in route.reason


def test_who_asks_for_a_deleted_instruction_is_told_of_the_task_that_still_runs_it() -> None:
    message = InboundMessage(content="hi", instruction="poet")
    ended, live = replace(task("a", "completed"), instruction="poet"), replace(task("b", "active"), instruction="poet")
    assert "Task b began with it" in routed(view(message=message, known=(ended, live))).reason
    assert "began with it" not in routed(view(message=message, known=(ended,))).reason


@pytest.mark.parametrize(
    ("deadline", "decision"), [(0, "new"), (NOW - 1, "rejected"), (NOW, "rejected"), (NOW + 1, "new")]
)
def test_a_deadline_that_has_passed_is_refused(deadline: int, decision: str) -> None:
    given = rfc3339(deadline) if deadline else None
    route = routed(view(message=InboundMessage(content="hi", session_id="s1", deadline=given)))
    assert route.decision == decision
    assert (route.error is ErrorCode.DEADLINE_EXCEEDED) is (decision == "rejected")


def test_the_candidates_are_named() -> None:
    route = routed(view(known=(task("a", "active"), task("b", "completed"))))
    assert route.candidates == ["a", "b"]


def test_what_the_rules_leave_open_is_a_question() -> None:
    known = (task("b", "active"), task("a", "waiting"), task("c", "completed"), task("d", "failed"))
    question = decide(view(known=known, weighed=True))
    assert isinstance(question, Question)
    assert [each.task_id for each in question.tasks] == ["b", "a", "c"]


def test_of_several_the_one_that_was_spoken_to_last_is_less_than_certain() -> None:
    known = (task("b", "active"), task("a", "waiting"))
    route = routed(view(known=known))
    assert (route.decision, route.task, route.candidates) == ("append", known[0], ["b", "a"])
    assert 0 < route.confidence < routed(view(known=known[:1])).confidence == 1.0


def test_an_answer_goes_to_the_task_that_has_asked() -> None:
    asking = replace(task("a", "waiting"), reason="question")
    known = (task("b", "active"), asking)
    route = routed(view(known=known, weighed=True))
    assert (route.decision, route.task, route.stage) == ("append", asking, "rule")
    both = (replace(known[0], status="waiting", reason="question"), asking)
    assert isinstance(decide(view(known=both, weighed=True)), Question)


@pytest.mark.parametrize(
    ("content", "action"), [("cancel that", "cancel"), ("算了", "cancel"), ("how far are you?", "progress")]
)
def test_control_in_words_is_for_the_live_task_that_was_spoken_to_last(content: str, action: str) -> None:
    message = InboundMessage(content=content, session_id="s1")
    known = (task("done", "completed"), task("a", "active"), task("b", "active"))
    route = routed(view(message=message, known=known, weighed=True))
    assert (route.decision, route.action, route.task) == ("control", action, known[1])
    assert isinstance(decide(view(message=message, known=known[:1], weighed=True)), Question)


def test_only_what_is_paused_is_resumed_in_words() -> None:
    paused = replace(task("b", "waiting"), reason="paused", paused="active")
    known = (task("a", "active"), paused)
    message = InboundMessage(content="please continue", session_id="s1")
    route = routed(view(message=message, known=known, weighed=True))
    assert (route.decision, route.action, route.task) == ("control", "resume", paused)
    assert isinstance(decide(view(message=message, known=known[:1], weighed=True)), Question)
    pause = InboundMessage(content="pause that", session_id="s1")
    assert routed(view(message=pause, known=known, weighed=True)).task == known[0]


@pytest.mark.parametrize(
    ("content", "told_of_it"),
    [("pause it", "Pausing: g"), ("暂停", "正在暂停：g"), ("resume", "Going on with: g"), ("继续", "继续：g")],
)
def test_a_person_is_told_in_their_language_what_is_done(content: str, told_of_it: str) -> None:
    action = control_of(content)
    assert action is not None
    assert control_answer(action, replace(task("a", "active"), goal="g"), content) == told_of_it


def test_how_far_a_task_is_that_waits_says_for_what() -> None:
    waiting = replace(task("a", "waiting"), goal="g", reason="paused")
    assert control_answer("progress", waiting, "how far are you?") == "g: waiting for you (paused)"
    assert control_answer("progress", waiting, "进度如何") == "g：等待您（paused）"
    pending = replace(task("a", "pending"), goal="g", reason="too many")
    assert control_answer("progress", pending, "how far are you?") == "g: pending (too many)"
    assert control_answer("progress", pending, "进度如何") == "g：排队中（too many）"


def test_the_session_keeps_live_tasks_before_ended_ones_and_not_too_many() -> None:
    ended = tuple(task(f"e{n}", "completed") for n in range(RECENT_TASKS))
    live = tuple(task(f"l{n}", "active") for n in range(3))
    known = (*ended, task("old", "completed", 0), task("gone", "cancelled"), *live)
    kept = kept_in_view(view(known=known), "e0")
    assert kept == ["l0", "l1", "l2", *(f"e{n}" for n in range(1, RECENT_TASKS - 3))]


@pytest.mark.parametrize(("length", "kept"), [(1, 1), (500, 500), (501, 500), (10_000, 500)])
def test_a_goal_fits_into_a_header(length: int, kept: int) -> None:
    goal = goal_of("x" * length)
    assert len(goal) == kept
    assert goal.endswith("…") is (length > 500)


def test_a_named_task_that_cannot_be_read_is_refused_with_the_reason() -> None:
    route = routed(view("t", damaged="the record of task t cannot be read: it is empty"))
    assert (route.decision, route.error) == ("rejected", ErrorCode.UNKNOWN_TASK)
    assert route.reason == "the record of task t cannot be read: it is empty"


@pytest.mark.parametrize("weighed", [True, False])
def test_a_message_may_ask_for_a_new_task(weighed: bool) -> None:
    live = task("a", "active")
    route = routed(view("new", known=(live,), weighed=weighed))
    assert (route.decision, route.task, route.instruction) == ("new", None, "executor")
    assert (route.reason, route.candidates) == ("the message asks for a new task", ["a"])
    message = InboundMessage(content="cancel that", session_id="s1", task_id="new", instruction="poet")
    asked = routed(replace(view(known=(live,), runnables={"poet": POET}), message=message, weighed=weighed))
    assert (asked.decision, asked.instruction) == ("new", "poet"), "no control: it has said where it goes"
