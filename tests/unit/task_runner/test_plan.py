"""What a task with mail does next, decided from state and mail alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.envelope import Budget
from pentad.contracts.events import EndStatus
from pentad.services.task_runner.domain.arrived import Arrived, sort_mail
from pentad.services.task_runner.domain.plan import (
    Answered,
    AskModel,
    AwaitAnswers,
    Bounds,
    CallAgain,
    Closed,
    End,
    Enqueue,
    Finish,
    GoesOn,
    Hold,
    Idle,
    Pause,
    Plan,
    Reopen,
    Resume,
    Stale,
    Start,
    StillPaused,
    Timer,
    fired_early,
    give_up,
    plan,
)
from pentad.shared.actors.headers import Mail, OpenCall, TaskHeader
from pentad.shared.actors.mail import CallRequest, RedriveMail, ResultMail, UserMail
from pentad.shared.kinds import TimerKind

NOW, STEP_MS, LIMIT, WAIT_MS, STALE_MS = 100_000, 10_000, 10, 50_000, 20_000
BOUNDS = Bounds(LIMIT, STEP_MS, WAIT_MS, STALE_MS)
CALLS = (OpenCall("c1", "echo", "default"), OpenCall("c2", "echo", "default"))
ACTIVE = TaskHeader("default", "t", "s1", "active", asked_at=NOW)
ASKED = replace(ACTIVE, open=CALLS)


def user(number: int, budget: Budget | None = None, deadline: str | None = None) -> Mail:
    name = f"m{number}"
    message = InboundMessage(content=name, session_id="s1", message_id=name, budget=budget, deadline=deadline)
    return Mail(number, "user", UserMail(message=message, entry_id="1-1", at="now").to_json())


def result(number: int, call: str) -> Mail:
    return Mail(number, "result", ResultMail(tool_call_id=call, content="ok", ok=True).to_json())


def control(number: int, kind: str) -> Mail:
    return Mail(number, kind, b"{}")


def planned(task: TaskHeader, *mail: Mail, now: int = NOW) -> Plan:
    """The plan; what an end says in words has a test of its own."""
    decided = plan(task, sort_mail(mail, task.ended_mail), now, BOUNDS)
    return replace(decided, detail="") if isinstance(decided, End) else decided


def closed(error: str, *calls: OpenCall) -> tuple[Closed, ...]:
    return give_up(calls, error, "cancelled" if "cancelled" in error else "timeout")


def ends(reason: str, given_up: tuple[Closed, ...] = ()) -> End:
    """The end for this reason: a limit that the turn has met leaves the next messages their own turn."""
    status: EndStatus = "cancelled" if reason == "cancelled" else "failed"
    return End(status, "fail" if reason in ("step_limit", "wait_expired") else "stop", reason, closed=given_up)


FINISH = Finish("d", "complete")
QUESTION = OpenCall("q", "ask_user", "", "person")
DONE = OpenCall("d", "complete_task", "", "runner")
ASKING = replace(ACTIVE, status="waiting", reason="question", waiting_at=NOW, open=(QUESTION,))
OF_CLIENT = OpenCall("k", "get_place", "", "client")
ON_CLIENT = replace(ACTIVE, status="waiting", reason="client_tools", waiting_at=NOW, open=(OF_CLIENT,))
CANCELLED = closed("the task was cancelled", *CALLS)
LATE = "no result within the step's time limit"
NOTHING = Budget(steps=0)


@pytest.mark.parametrize(
    ("task", "mail", "expected"),
    [
        pytest.param(ACTIVE, [user(1)], AskModel(), id="a message"),
        pytest.param(ACTIVE, [], Idle(), id="nothing"),
        pytest.param(ACTIVE, [control(1, "retry")], Idle((1,)), id="a stale retry"),
        pytest.param(ASKED, [result(1, "c1")], Idle(), id="one of two results"),
        pytest.param(ASKED, [user(1)], Idle(), id="a message while tools run"),
        pytest.param(ASKED, [result(1, "c1"), result(2, "c2")], AskModel(), id="both results"),
        pytest.param(ASKED, [result(1, "c2"), user(2), result(3, "c1")], AskModel(), id="both results and a message"),
        pytest.param(ASKED, [control(1, "cancel")], ends("cancelled", CANCELLED), id="cancel"),
        pytest.param(
            ASKED, [result(1, "c1"), control(2, "cancel")],
            ends("cancelled", CANCELLED[1:]), id="cancel with one result there",
        ),
        pytest.param(ACTIVE, [user(1), control(2, "cancel")], ends("cancelled"), id="cancel and a message"),
        pytest.param(replace(ACTIVE, status="waiting"), [user(1)], GoesOn(), id="an answer to a question"),
        pytest.param(
            replace(ASKED, deadline=NOW), [control(1, "deadline")],
            ends("deadline_exceeded", closed("the deadline has passed", *CALLS)), id="the deadline",
        ),
        pytest.param(replace(ASKED, deadline=NOW + 1), [control(1, "deadline")], Idle((1,)), id="a moved deadline"),
        pytest.param(replace(ASKED, asked_at=NOW - STEP_MS), [result(1, "c1")], AskModel(closed=closed(LATE, CALLS[1])),
                     id="the step's time limit"),
        pytest.param(replace(ASKED, asked_at=NOW - STEP_MS + 1), [control(1, "timeout")], Idle((1,)),
                     id="a stale timeout"),
        pytest.param(replace(ASKED, turn_steps=LIMIT), [result(1, "c1"), result(2, "c2")], ends("step_limit"),
                     id="the step limit"),
        pytest.param(replace(ASKED, turn_steps=LIMIT), [result(1, "c1"), result(2, "c2"), user(3)], AskModel(),
                     id="a message begins the count again"),
        pytest.param(replace(ASKED, budget=Budget(steps=1), turn_steps=1), [result(1, "c1"), result(2, "c2")],
                     Pause("budget_exceeded"), id="a budget used up"),
        pytest.param(ASKING, [control(1, "timeout")], Idle((1,)), id="a question has no time limit"),
        pytest.param(ASKING, [user(1)], GoesOn(), id="an answered question"),
        pytest.param(replace(ASKING, open=(QUESTION, CALLS[0])), [user(1)], Answered(), id="answered, a call is open"),
        pytest.param(replace(ASKING, open=(QUESTION, CALLS[0])), [result(1, "c1")], Idle(), id="a result, no answer"),
        pytest.param(replace(ASKING, open=(QUESTION, CALLS[0])), [result(1, "c1"), user(2)], GoesOn(),
                     id="an answer and a result"),
        pytest.param(replace(ASKING, open=(QUESTION, CALLS[0]), asked_at=NOW - STEP_MS), [user(1)],
                     GoesOn(), id="answered after the calls' time limit"),
        pytest.param(ASKING, [control(1, "cancel")], ends("cancelled", closed("the task was cancelled",
                     QUESTION)), id="a cancelled question"),
        pytest.param(replace(ASKING, waiting_at=NOW - WAIT_MS), [control(1, "wait")],
                     ends("wait_expired", closed("nobody has answered", QUESTION)), id="nobody answers"),
        pytest.param(replace(ASKING, waiting_at=NOW - WAIT_MS), [control(1, "wait"), user(2)], GoesOn(),
                     id="an answer in the last moment"),
        pytest.param(replace(ACTIVE, open=(OF_CLIENT,)), [], AwaitAnswers("client_tools"), id="a call of the client"),
        pytest.param(replace(ACTIVE, open=(OF_CLIENT, CALLS[0])), [], Idle(), id="one of the client's, one of ours"),
        pytest.param(replace(ACTIVE, open=(OF_CLIENT, CALLS[0])), [result(1, "c1")], AwaitAnswers("client_tools"),
                     id="the client's is left"),
        pytest.param(ON_CLIENT, [], Idle(), id="the client is waited for"),
        pytest.param(ON_CLIENT, [control(1, "timeout")], Idle((1,)), id="a client has no time limit"),
        pytest.param(ON_CLIENT, [result(1, "k")], GoesOn(), id="the client's result"),
        pytest.param(ON_CLIENT, [user(1)], GoesOn(), id="a message instead of a result"),
        pytest.param(replace(ON_CLIENT, status="active"), [user(1)], AskModel(), id="a message while results come"),
        pytest.param(replace(ON_CLIENT, waiting_at=NOW - WAIT_MS), [control(1, "wait")],
                     ends("wait_expired", closed("nobody has answered", OF_CLIENT)), id="no client answers"),
        pytest.param(replace(ACTIVE, open=(DONE,)), [], FINISH, id="a call that completes"),
        pytest.param(replace(ACTIVE, open=(DONE, CALLS[0])), [], Idle(), id="it waits for the others"),
        pytest.param(replace(ACTIVE, open=(DONE, CALLS[0]), turn_steps=LIMIT), [result(1, "c1")], FINISH,
                     id="it is no further step"),
        pytest.param(replace(ACTIVE, open=(DONE,)), [user(1)], AskModel(), id="the user has said more"),
        pytest.param(replace(ACTIVE, open=(DONE, CALLS[0]), asked_at=NOW - STEP_MS), [],
                     Finish("d", "complete", closed(LATE, CALLS[0])), id="it waits no longer than the others may take"),
        pytest.param(ACTIVE, [user(1, NOTHING)], Pause("budget_exceeded"), id="a budget of nothing"),
        pytest.param(ACTIVE, [user(1, NOTHING), user(2)], AskModel(), id="the last message's budget counts"),
    ],
)  # fmt: skip
def test_the_plan(task: TaskHeader, mail: Sequence[Mail], expected: Plan) -> None:
    assert planned(task, *mail) == expected


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_ended_task_is_not_moved_by_late_mail(status: Any) -> None:
    ended = replace(ACTIVE, status=status)
    assert planned(ended, control(1, "cancel"), result(2, "c1")) == Idle((1, 2))
    again = planned(ended, user(3))
    assert again == (Idle() if status == "cancelled" else Reopen(0))


def test_an_ended_task_begins_again_under_the_last_deadline_that_was_left() -> None:
    failed = replace(ACTIVE, status="failed", deadline=0)
    left = [user(1, deadline="1970-01-01T00:00:07Z"), user(2, deadline="1970-01-01T00:00:05Z"), user(3)]
    assert planned(failed, *left) == Reopen(5000)


def test_messages_that_an_end_took_with_it_ask_for_nothing() -> None:
    """The end comes first, and what waited behind it is written down afterwards, piece by piece."""
    cancelled = replace(ACTIVE, status="cancelled", ended_mail=2)
    assert planned(cancelled, user(1), user(2)) == Idle()
    opened_again = replace(ACTIVE, ended_mail=2)
    assert planned(opened_again, user(1), user(2)) == Idle()
    assert planned(opened_again, user(2), user(3)) == AskModel()
    late = replace(ACTIVE, status="failed", ended_mail=2)
    assert (planned(late, user(2)), planned(late, user(2), user(3))) == (Idle(), Reopen(0))
    arrived = sort_mail([user(1), user(2), user(3)], 2)
    assert ([u.message.content for u in arrived.ended], arrived.ended_number) == (["m1", "m2"], 2)
    assert ([u.message.content for u in arrived.users], arrived.user_number) == (["m3"], 3)


WAITING = replace(ACTIVE, status="waiting", waiting_at=NOW - WAIT_MS)


def test_a_task_that_waited_for_a_person_too_long_ends() -> None:
    assert planned(WAITING, control(1, "wait")) == ends("wait_expired")
    assert planned(WAITING, control(1, "wait"), user(2)) == GoesOn(), "they came after all"
    assert planned(replace(WAITING, waiting_at=NOW - WAIT_MS + 1), control(1, "wait")) == Idle((1,))
    assert planned(replace(WAITING, status="active"), control(1, "wait")) == Idle((1,))


@pytest.mark.parametrize(
    ("task", "kind", "due"),
    [
        pytest.param(replace(ACTIVE, deadline=NOW + 7), "deadline", NOW + 7, id="the deadline"),
        pytest.param(replace(ASKED, asked_at=NOW - 1), "timeout", NOW - 1 + STEP_MS, id="the limit of the calls"),
        pytest.param(replace(WAITING, waiting_at=NOW - 1), "wait", NOW - 1 + WAIT_MS, id="waiting"),
        pytest.param(replace(ACTIVE, deadline=NOW), "deadline", None, id="a deadline that is due"),
        pytest.param(replace(ACTIVE, asked_at=NOW), "timeout", None, id="no open call"),
        pytest.param(replace(WAITING, status="active"), "wait", None, id="not waiting any more"),
        pytest.param(replace(ACTIVE, status="failed", deadline=NOW + 7), "deadline", None, id="an ended task"),
    ],
)
def test_a_timer_that_fired_before_its_time_is_set_again_for_what_is_left(
    task: TaskHeader, kind: TimerKind, due: int | None
) -> None:
    """The clock has stepped back, or a restart has brought a longer time: nothing is spent by an early timer."""
    arrived = sort_mail([control(1, kind)], 0)
    assert fired_early(task, arrived, NOW, BOUNDS) == (() if due is None else (Timer(kind, due),))
    assert fired_early(task, sort_mail([control(1, "cancel")], 0), NOW, BOUNDS) == ()


@pytest.mark.parametrize(
    ("task", "kind", "field", "length"),
    [
        (replace(ASKED, asked_at=NOW + 600_000), "timeout", "asked_at", STEP_MS),
        (replace(WAITING, waiting_at=NOW + 600_000), "wait", "waiting_at", WAIT_MS),
        (replace(WAITING, updated=NOW + 600_000), "stale", "updated", BOUNDS.stale_ms),
    ],
)
def test_what_counts_from_a_time_ahead_counts_from_now(
    task: TaskHeader, kind: TimerKind, field: str, length: int
) -> None:
    """The clock has stepped back since; else the time would begin anew at each firing until the clock has caught up."""
    early = fired_early(task, sort_mail([control(1, kind)], 0), NOW, BOUNDS)
    assert early == (Timer(kind, NOW + length, field),)


def test_where_the_model_is_asked_again_calls_have_their_time_limit_anew_when_the_clock_stepped_back() -> None:
    """Their time was over when the model was first asked, and was busy; by the clock of now it is not."""
    again = sort_mail([control(1, "retry")], 0)
    ahead = replace(ASKED, asked_at=NOW + 3_600_000)
    assert plan(ahead, again, NOW, BOUNDS) == Idle((1,))
    assert fired_early(ahead, again, NOW, BOUNDS) == (Timer("timeout", NOW + STEP_MS, "asked_at"),)
    assert fired_early(replace(ASKED, asked_at=NOW - STEP_MS), again, NOW, BOUNDS) == ()
    assert fired_early(ACTIVE, again, NOW, BOUNDS) == ()


def test_a_call_that_waits_for_a_person_has_no_time_limit_but_ends_with_its_task() -> None:
    asked = replace(ASKED, open=(CALLS[0], replace(CALLS[1], target="person")))
    late = NOW + 100 * STEP_MS
    assert planned(asked, result(1, "c1"), now=late) == planned(asked, now=late) == Idle()
    assert planned(asked, result(1, "c1"), result(2, "c2"), now=late) == AskModel()
    cancelled = planned(asked, result(1, "c1"), control(2, "cancel"), now=late)
    assert isinstance(cancelled, End)
    assert [each.call.id for each in cancelled.closed] == ["c2"]


def test_mail_is_sorted_by_kind_and_keeps_its_order() -> None:
    arrived = sort_mail([user(1), result(2, "c1"), control(3, "cancel"), user(4), result(5, "c2")], 0)
    assert [u.message.content for u in arrived.users] == ["m1", "m4"]
    assert list(arrived.results) == ["c1", "c2"]
    numbers = (arrived.user_number, arrived.result_numbers, arrived.control_numbers)
    assert numbers == (4, (2, 5), (3,))
    assert arrived.controls == {"cancel": b"{}"}
    assert sort_mail([], 0) == Arrived((), (), {}, (), {}, "", 0, 0, (), (), ())


PAUSED = replace(ACTIVE, status="waiting", reason="paused", paused="active", waiting_at=NOW, updated=NOW)
COMPLETED_BY = "the task was completed by a person"
IDLE_FOR_LONG = replace(ASKING, updated=NOW - STALE_MS)


@pytest.mark.parametrize(
    ("task", "mail", "expected"),
    [
        pytest.param(ACTIVE, [user(1), control(2, "pause")], Hold(), id="a pause before a step"),
        pytest.param(ASKED, [control(1, "pause")], Hold(), id="a pause while tools run"),
        pytest.param(ASKING, [control(1, "pause"), user(2)], Hold(), id="a pause of a question, and its answer"),
        pytest.param(ACTIVE, [user(1), control(2, "pause"), control(3, "resume")], AskModel(), id="resumed at once"),
        pytest.param(ACTIVE, [control(1, "resume"), user(2), control(3, "pause")], Hold(), id="paused at last"),
        pytest.param(ACTIVE, [user(1), control(2, "resume")], AskModel(), id="a resume of what runs"),
        pytest.param(PAUSED, [control(1, "pause")], Idle((1,)), id="paused twice"),
        pytest.param(PAUSED, [user(1)], StillPaused(), id="a message"),
        pytest.param(replace(PAUSED, paused_mail=1), [user(1)], Idle(), id="a message that was told so"),
        pytest.param(replace(PAUSED, paused_mail=1), [user(1), user(2)], StillPaused(), id="one message more"),
        pytest.param(replace(PAUSED, open=CALLS), [result(1, "c1"), result(2, "c2")], Idle(), id="results wait"),
        pytest.param(replace(PAUSED, open=CALLS, asked_at=0), [control(1, "timeout")], Idle((1,)), id="no time limit"),
        pytest.param(PAUSED, [user(1), control(2, "resume")], Resume(), id="a resume"),
        pytest.param(PAUSED, [control(1, "resume"), control(2, "pause")], Idle((1, 2)), id="resumed and paused"),
        pytest.param(PAUSED, [control(1, "cancel"), control(2, "resume")], ends("cancelled"), id="cancel"),
        pytest.param(replace(PAUSED, deadline=NOW), [control(1, "deadline")], ends("deadline_exceeded"),
                     id="the deadline passes meanwhile"),
        pytest.param(replace(PAUSED, waiting_at=NOW - WAIT_MS, paused_mail=1), [user(1), control(2, "wait")],
                     ends("wait_expired"), id="nobody resumes it"),
        pytest.param(replace(PAUSED, waiting_at=NOW - WAIT_MS), [control(2, "wait"), control(3, "resume")],
                     Resume(), id="resumed in the last moment"),
        pytest.param(replace(ASKING, waiting_at=NOW - WAIT_MS), [control(2, "wait"), control(3, "pause")],
                     Hold(), id="paused in the last moment"),
        pytest.param(replace(PAUSED, waiting_at=NOW - WAIT_MS), [control(2, "wait"), control(3, "pause")],
                     ends("wait_expired"), id="paused once more changes nothing"),
        pytest.param(replace(ASKING, waiting_at=NOW - WAIT_MS, open=()), [control(2, "wait"), control(3, "resume")],
                     ends("wait_expired"), id="resumed though not paused changes nothing"),
        pytest.param(IDLE_FOR_LONG, [control(1, "stale")], Stale(), id="nothing has happened"),
        pytest.param(replace(IDLE_FOR_LONG, status="stale"), [control(1, "stale")], Idle((1,)), id="it is stale"),
        pytest.param(replace(IDLE_FOR_LONG, updated=NOW - STALE_MS + 1), [control(1, "stale")], Idle((1,)), id="early"),
        pytest.param(IDLE_FOR_LONG, [control(1, "stale"), user(2)], GoesOn(), id="an answer in time"),
        pytest.param(replace(PAUSED, updated=NOW - STALE_MS), [control(1, "stale")], Stale(), id="paused for long"),
        pytest.param(replace(ASKED, updated=NOW - STALE_MS), [control(1, "stale")], Stale(), id="a long call"),
        pytest.param(replace(ASKED, status="stale"), [user(1)], Answered(), id="a message to a stale task with a call"),
        pytest.param(replace(ASKED, status="stale"), [result(1, "c1"), result(2, "c2")], GoesOn(), id="its results"),
        pytest.param(replace(ASKING, status="stale"), [user(1)], GoesOn(), id="a message to a stale task"),
        pytest.param(replace(ASKING, status="stale", waiting_at=NOW - WAIT_MS), [control(1, "wait")],
                     ends("wait_expired", closed("nobody has answered", QUESTION)), id="a stale task ends"),
        pytest.param(replace(ACTIVE, status="completed"), [control(1, "pause")], Idle((1,)), id="a late pause"),
        pytest.param(ASKING, [control(1, "complete")],
                     End("completed", "complete", "closed", closed=give_up((QUESTION,), COMPLETED_BY)),
                     id="a person says that it is done"),
        pytest.param(PAUSED, [control(1, "complete")], End("completed", "complete", "closed"), id="paused, and done"),
        pytest.param(ASKING, [control(1, "complete"), user(2)], GoesOn(), id="an answer goes first"),
        pytest.param(ASKED, [control(1, "complete")], Idle((1,)), id="what works is not done"),
    ],
)  # fmt: skip
def test_a_pause_and_what_is_forgotten(task: TaskHeader, mail: Sequence[Mail], expected: Plan) -> None:
    assert planned(task, *mail) == expected


CALL = CallRequest(tool="echo", args={"text": "y"})


def redrive(number: int, *calls: CallRequest) -> Mail:
    return Mail(number, "redrive", RedriveMail(letter="0-1-1", at=1, calls=list(calls)).to_json())


@pytest.mark.parametrize(
    ("task", "mail", "expected"),
    [
        pytest.param(ACTIVE, [redrive(1)], AskModel(), id="the task goes on"),
        pytest.param(ACTIVE, [redrive(1, CALL)], CallAgain((CALL,)), id="a call is made again"),
        pytest.param(ACTIVE, [redrive(1, CALL), redrive(2, CALL)], CallAgain((CALL, CALL)), id="two are"),
        pytest.param(ACTIVE, [redrive(1, CALL), user(2)], CallAgain((CALL,)), id="the call before the message"),
        pytest.param(ASKED, [redrive(1, CALL)], Idle(), id="it waits for the calls that are open"),
        pytest.param(ASKED, [result(1, "c1"), result(2, "c2"), redrive(3, CALL)], CallAgain((CALL,)), id="and follows"),
        pytest.param(replace(ACTIVE, turn_steps=LIMIT), [redrive(1)], AskModel(), id="its steps are counted anew"),
        pytest.param(replace(ACTIVE, status="completed"), [redrive(1)], Reopen(0), id="an ended task opens again"),
        pytest.param(replace(ACTIVE, status="cancelled"), [redrive(1)], Idle((1,)), id="not a cancelled one"),
        pytest.param(ACTIVE, [user(1, Budget(steps=0)), redrive(2)], Pause("budget_exceeded"), id="no budget"),
        pytest.param(ACTIVE, [user(1, Budget(steps=0)), redrive(2, CALL)], CallAgain((CALL,)), id="a call needs none"),
    ],
)
def test_what_is_redriven_asks_the_task_to_go_on(task: TaskHeader, mail: Sequence[Mail], expected: Plan) -> None:
    assert planned(task, *mail) == expected


HELD_BACK = replace(ACTIVE, place="s")
PENDING = replace(ACTIVE, status="pending", place="t")
GRANTED = replace(PENDING, place="a")


@pytest.mark.parametrize(
    ("task", "mail", "expected"),
    [
        pytest.param(replace(ACTIVE, place="a"), [user(1)], AskModel(), id="it has its place"),
        pytest.param(HELD_BACK, [user(1)], Enqueue(), id="it has none"),
        pytest.param(HELD_BACK, [redrive(1, CALL)], Enqueue(), id="a call is made again"),
        pytest.param(replace(ASKING, place="t"), [user(1)], Enqueue(), id="an answered question"),
        pytest.param(replace(ASKING, place="s", open=(QUESTION, CALLS[0])), [user(1)], Enqueue(),
                     id="answered, a call is open"),
        pytest.param(replace(ASKED, place="s"), [result(1, "c1")], Idle(), id="nothing is to be done yet"),
        pytest.param(replace(ASKED, place="s"), [result(1, "c1"), result(2, "c2")], Enqueue(), id="both results"),
        pytest.param(replace(ACTIVE, place="s", open=(DONE,)), [], FINISH, id="it only has to end"),
        pytest.param(replace(PAUSED, place="s"), [control(1, "resume")], Resume(), id="a resume"),
        pytest.param(replace(ACTIVE, status="completed"), [user(1)], Reopen(0), id="an ended task opens first"),
        pytest.param(PENDING, [user(1)], Idle(), id="it waits with its message"),
        pytest.param(PENDING, [user(1), control(2, "stale")], Idle((2,)), id="it is not forgotten"),
        pytest.param(replace(PENDING, updated=NOW - STALE_MS), [control(1, "stale")], Idle((1,)), id="nor stale"),
        pytest.param(replace(PENDING, open=CALLS, asked_at=0), [control(1, "timeout")], Idle((1,)),
                     id="no time limit"),
        pytest.param(PENDING, [user(1), control(2, "cancel")], ends("cancelled"), id="cancel"),
        pytest.param(replace(PENDING, deadline=NOW), [user(1)], ends("deadline_exceeded"), id="the deadline"),
        pytest.param(PENDING, [user(1), control(2, "pause")], Hold(), id="a pause"),
        pytest.param(PENDING, [user(1, NOTHING)], Pause("budget_exceeded"), id="no budget"),
        pytest.param(GRANTED, [user(1)], Start(), id="it was granted its place"),
        pytest.param(GRANTED, [], Start(), id="though it has nothing to do"),
        pytest.param(replace(GRANTED, open=CALLS, asked_at=0), [], Start(), id="calls have their time anew"),
        pytest.param(GRANTED, [user(1), control(2, "cancel")], ends("cancelled"), id="cancelled before"),
        pytest.param(replace(PENDING, place=""), [user(1)], Start(), id="a place that is lost holds nobody up"),
    ],
)  # fmt: skip
def test_a_task_goes_on_only_with_a_place(task: TaskHeader, mail: Sequence[Mail], expected: Plan) -> None:
    assert planned(task, *mail) == expected


@pytest.mark.parametrize(
    ("task", "mail", "words"),
    [
        pytest.param(replace(ASKED, turn_steps=LIMIT), [result(1, "c1"), result(2, "c2")],
                     f"{LIMIT} steps since the last message have led to no answer; PENTAD_STEP_LIMIT is the limit",
                     id="the step limit"),
        pytest.param(replace(ACTIVE, deadline=60_000), [control(1, "deadline")],
                     "the turn's deadline was 1970-01-01T00:01:00.000Z", id="the deadline"),
        pytest.param(WAITING, [control(1, "wait")],
                     f"nobody has answered for {WAIT_MS / 1000:g} s; PENTAD_WAIT_TTL_S is the limit", id="nobody came"),
        pytest.param(ACTIVE, [control(1, "cancel")], "", id="a cancel"),
    ],
)  # fmt: skip
def test_an_end_by_a_limit_names_the_limit_and_what_sets_it(task: TaskHeader, mail: Sequence[Mail], words: str) -> None:
    decided = plan(task, sort_mail(mail, task.ended_mail), max(NOW, 60_000), BOUNDS)
    assert isinstance(decided, End)
    assert decided.detail == words
