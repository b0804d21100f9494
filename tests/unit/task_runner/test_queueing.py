"""Where messages queue, each has a turn of its own: what of a mailbox belongs to it, and what the plan is then."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pentad.services.task_runner.domain.arrived import sort_mail
from pentad.services.task_runner.domain.plan import (
    AskModel,
    CallAgain,
    Finish,
    Hold,
    Idle,
    Plan,
    Reopen,
    mail_of_this_turn,
    plan,
)
from pentad.shared.actors.headers import Mail, TaskHeader
from pentad.shared.actors.mail import CallRequest, MoveMail, RedriveMail
from tests.unit.task_runner.test_plan import (
    ACTIVE,
    ASKED,
    ASKING,
    BOUNDS,
    CALLS,
    DONE,
    NOW,
    PAUSED,
    QUESTION,
    STEP_MS,
    control,
    result,
    user,
)

ENDED = replace(ACTIVE, status="completed")
TWO = (user(1), user(2))
MOVE = Mail(3, "move", MoveMail(message_id="m2", to="new").to_json())
CALL = CallRequest(tool="echo", args={})
REDRIVE = Mail(3, "redrive", RedriveMail(letter="l", at=1, calls=[CALL]).to_json())
PAUSED_MIDWAY = replace(PAUSED, paused_mail=2)
RESULTS = (result(3, "c1"), result(4, "c2"))


@pytest.mark.parametrize(
    ("task", "mail", "taken", "left"),
    [
        pytest.param(ACTIVE, TWO, ["m1"], True, id="a turn begins with one"),
        pytest.param(ACTIVE, [user(1)], ["m1"], False, id="the last of them"),
        pytest.param(ACTIVE, [], [], False, id="none"),
        pytest.param(ASKED, TWO, [], True, id="tools run"),
        pytest.param(ASKED, [*TWO, *RESULTS], [], True, id="their results are to be told"),
        pytest.param(replace(ACTIVE, open=(DONE,)), TWO, [], True, id="the task is to end"),
        pytest.param(replace(ACTIVE, repairs=1), TWO, [], True, id="an answer is asked for again"),
        pytest.param(replace(ENDED, repairs=1), TWO, ["m1"], True, id="it was, in a turn before"),
        pytest.param(replace(ACTIVE, unanswered=1), TWO, [], True, id="a step was moved away"),
        pytest.param(ASKING, TWO, ["m1"], True, id="an answer to a question"),
        pytest.param(replace(ACTIVE, open=(QUESTION, CALLS[0])), TWO, ["m1"], True, id="an early answer to one"),
        pytest.param(ENDED, TWO, ["m1"], True, id="the next turn"),
        pytest.param(ACTIVE, [*TWO, REDRIVE], [], True, id="what was redriven is a turn of its own"),
    ],
)
def test_a_turn_has_its_own_messages(task: TaskHeader, mail: Sequence[Mail], taken: list[str], left: bool) -> None:
    arrived = mail_of_this_turn(task, sort_mail(mail, 0))
    assert ([each.message.content for each in arrived.users], arrived.left, arrived.queues) == (taken, left, True)
    assert arrived.user_number == len(taken), "what is taken is taken out of the box, and nothing else"


@pytest.mark.parametrize(
    ("task", "mail"),
    [
        pytest.param(ASKED, [*TWO, control(3, "cancel")], id="a cancel takes them all"),
        pytest.param(ASKED, [*TWO, control(3, "pause")], id="a pause tells all of them that they wait"),
        pytest.param(PAUSED_MIDWAY, TWO, id="a paused task keeps them all"),
        pytest.param(ASKED, [*TWO, MOVE], id="a move may be of any"),
    ],
)
def test_what_concerns_all_messages_finds_them_all(task: TaskHeader, mail: Sequence[Mail]) -> None:
    arrived = sort_mail(mail, 0)
    assert mail_of_this_turn(task, arrived) == arrived


@pytest.mark.parametrize(
    ("task", "mail", "expected"),
    [
        pytest.param(ASKED, TWO, Idle(), id="tools run"),
        pytest.param(ASKED, [*TWO, *RESULTS], AskModel(), id="their results alone are told"),
        pytest.param(replace(ACTIVE, open=(DONE,)), TWO, Finish("d", "fail"), id="no message keeps the turn open"),
        pytest.param(replace(ASKED, asked_at=NOW - STEP_MS), [user(1), result(2, "c1"), result(3, "c2")], AskModel(),
                     id="late results"),
        pytest.param(replace(ACTIVE, repairs=1), TWO, AskModel(), id="an answer is asked for again"),
        pytest.param(ENDED, [user(1), user(2, deadline="1970-01-01T00:00:07Z")], Reopen(0), id="its own deadline"),
        pytest.param(ENDED, [user(1, deadline="1970-01-01T00:00:07Z"), user(2)], Reopen(7000), id="and not another's"),
        pytest.param(ACTIVE, [*TWO, REDRIVE], CallAgain((CALL,)), id="what was redriven"),
        pytest.param(ASKED, [*TWO, control(3, "pause")], Hold(), id="a pause"),
    ],
)  # fmt: skip
def test_the_plan_of_a_turn_is_made_of_its_own_messages(task: TaskHeader, mail: Sequence[Mail], expected: Plan) -> None:
    assert plan(task, mail_of_this_turn(task, sort_mail(mail, task.ended_mail)), NOW, BOUNDS) == expected
