"""Whatever a task waits for is a call, and a target more needs its rule and nothing else."""

from dataclasses import replace
from typing import Any, cast

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.tools import ToolOutcome
from pentad.services.task_runner.domain.arrived import sort_mail
from pentad.services.task_runner.domain.plan import AskModel, Bounds, Closed, End, Finish, Idle, Plan, plan
from pentad.shared.actors.headers import Mail, OpenCall, TaskHeader
from pentad.shared.actors.mail import ResultMail, UserMail
from pentad.shared.actors.targets import RULES, TargetRule
from pentad.shared.kinds import RESULT, USER

NOW, STEP_MS = 1_000_000, 10_000
BOUNDS = Bounds(10, STEP_MS, 50_000, 20_000)
CALL = OpenCall("c1", "elect", "", cast("Any", "committee"))
TASK = TaskHeader(tenant="default", task_id="task-0-a", session="s1", status="active", open=(CALL,), asked_at=NOW)
LATE = NOW + 100 * STEP_MS


def decided(*mail: Mail, now: int = NOW, task: TaskHeader = TASK) -> Plan:
    return plan(task, sort_mail(mail, 0), now, BOUNDS)


def result(number: int) -> Mail:
    return Mail(number, RESULT, ResultMail.of("c1", ToolOutcome("ok", "elected")).to_json())


def said(number: int) -> Mail:
    message = InboundMessage(message_id="m1", session_id="s1", tenant_id="default", content="I vote for Ada")
    return Mail(number, USER, UserMail(message=message, entry_id="1-0", at="1970-01-01T00:00:00Z").to_json())


@pytest.fixture
def rule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[str, TargetRule]", RULES), "committee", request.param)


@pytest.mark.parametrize("rule", [TargetRule("result", timed=False)], indirect=True)
@pytest.mark.usefixtures("rule")
def test_a_target_whose_calls_have_no_time_limit_is_waited_for_until_its_result_is_there() -> None:
    assert decided(now=LATE) == Idle()
    assert decided(said(1), now=LATE) == Idle(), "a message waits for it"
    assert decided(result(1), now=LATE) == AskModel()


@pytest.mark.parametrize("rule", [TargetRule("result")], indirect=True)
@pytest.mark.usefixtures("rule")
def test_a_target_whose_calls_have_one_is_given_up_after_it() -> None:
    assert decided() == Idle()
    given_up = Closed(CALL, ToolOutcome("timeout", "no result within the step's time limit"))
    assert decided(now=LATE) == AskModel(closed=(given_up,))


@pytest.mark.parametrize("rule", [TargetRule("message", timed=False)], indirect=True)
@pytest.mark.usefixtures("rule")
def test_a_target_that_a_message_answers_goes_on_with_the_message() -> None:
    assert decided(now=LATE) == Idle()
    assert decided(said(1), now=LATE) == AskModel()


@pytest.mark.parametrize("rule", [TargetRule("others")], indirect=True)
@pytest.mark.usefixtures("rule")
def test_a_target_that_waits_for_the_others_ends_the_task_behind_them() -> None:
    worker = OpenCall("c2", "pay", "default")
    assert decided(task=replace(TASK, open=(CALL, worker))) == Idle()
    assert decided() == Finish("c1", "complete")


@pytest.mark.parametrize("rule", [TargetRule(ends) for ends in ("result", "message", "others")], indirect=True)
@pytest.mark.usefixtures("rule")
def test_a_cancel_gives_up_the_calls_of_every_target() -> None:
    cancel = Mail(1, "cancel", b"")
    given_up = (Closed(CALL, ToolOutcome("cancelled", "the task was cancelled")),)
    assert decided(cancel) == End("cancelled", "stop", "cancelled", closed=given_up)
