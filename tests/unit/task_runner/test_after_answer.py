"""What comes next when the model has answered, decided from the answer and the tools alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from pentad.contracts.events import INTERRUPTED
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.task_runner.domain.after_answer import (
    AskAgain,
    CallTools,
    CheckedJson,
    Complete,
    CutShort,
    Fail,
    Next,
    NothingSaid,
    Rules,
    after_answer,
    after_cut,
    is_to_be_checked,
)
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft, Usage

ECHO = ToolSpec(name="echo")


def following(text: str, *calls: tuple[str, str], tools: Mapping[str, ToolSpec] | None = None) -> Next | NothingSaid:
    drafts = tuple(ToolCallDraft(*call) for call in calls)
    answer = ModelAnswer(text, "", drafts, "stop", Usage(1, 1), "m")
    return after_answer(answer, Rules({"echo": ECHO} if tools is None else tools))


def test_an_answer_without_calls_is_the_last() -> None:
    assert following("done") == Complete("done")


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize(
    ("thinking", "reason", "problem"),
    [
        ("", "stop", "the model m said nothing: finish_reason stop"),
        ("hm", "stop", "the model m thought and then said nothing: finish_reason stop"),
        ("hm", "length", "the limit of tokens was reached before; raise max_tokens among the model's parameters"),
        ("", "content_filter", "its server's content filter withheld the answer"),
    ],
)
@pytest.mark.parametrize("json", [False, True])
def test_an_answer_without_text_or_calls_is_none(
    text: str, thinking: str, reason: str, problem: str, json: bool
) -> None:
    answer = ModelAnswer(text, thinking, (), reason, Usage(1, 1), "m")
    assert not is_to_be_checked(answer, Rules({}, json=json))
    decided = after_answer(answer, Rules({}, json=json, repairs_left=3))
    assert isinstance(decided, NothingSaid)
    assert decided.problem.endswith(problem)


@pytest.mark.parametrize(
    ("text", "kept"), [("let me", CutShort("let me")), (" so\n", CutShort(" so\n")), ("", None), (" \n", None)]
)
@pytest.mark.parametrize("calls", [(), (ToolCallDraft("echo", '{"te'),), (ToolCallDraft("echo", "{}"),)])
def test_of_an_answer_that_is_cut_its_text_stays_and_no_call_is_made(
    text: str, kept: CutShort | None, calls: tuple[ToolCallDraft, ...]
) -> None:
    said = ModelAnswer(text, "thought", calls, "stop", Usage(1, 1), "m")
    assert after_cut(said, Rules({"echo": ECHO})) == kept
    assert after_cut(said, Rules({"echo": ECHO}, json=True)) is None, "a value is whole or nothing"


@pytest.mark.parametrize("text", ["let me see", ""])
def test_calls_are_made_in_their_order_whatever_was_said(text: str) -> None:
    decided = following(text, ("echo", '{"a":1}'), ("echo", ""))
    assert isinstance(decided, CallTools)
    assert [(call.spec, call.args, call.arguments, call.problem) for call in decided.calls] == [
        (ECHO, {"a": 1}, '{"a":1}', ""),
        (ECHO, {}, "{}", ""),
    ]


@pytest.mark.parametrize(
    ("call", "tools", "problem"),
    [
        (("nope", "{}"), None, "there is no tool 'nope'; the tools are: echo"),
        (("nope", "{"), {}, "there is no tool 'nope'; no worker has any yet"),
        (("echo", "{"), None, "the arguments are not JSON"),
        (("echo", "[1]"), None, "the arguments are not a JSON object"),
    ],
)
def test_a_call_that_cannot_be_made_says_why_and_is_sent_back_as_json(
    call: tuple[str, str], tools: Mapping[str, ToolSpec] | None, problem: str
) -> None:
    decided = following("", call, ("echo", "{}"), tools=tools)
    assert isinstance(decided, CallTools)
    assert problem in decided.calls[0].problem
    assert decided.calls[0].arguments == "{}"


def of_json(checked: CheckedJson, repairs_left: int = 1, finish_reason: str = "stop") -> Next | NothingSaid:
    answer = ModelAnswer("text", "", (), finish_reason, Usage(1, 1), "m")
    rules = Rules({}, json=True, repairs_left=repairs_left)
    assert is_to_be_checked(answer, rules)
    return after_answer(answer, rules, checked)


WRONG = CheckedJson("", "seven is no number")


def test_an_answer_that_must_be_json_completes_with_its_value_alone() -> None:
    assert of_json(CheckedJson("7")) == Complete("7")


def test_a_wrong_answer_is_asked_for_again_as_often_as_it_may_and_then_fails() -> None:
    assert of_json(WRONG) == AskAgain("seven is no number")
    assert of_json(WRONG, repairs_left=0) == Fail("seven is no number")
    assert of_json(WRONG, repairs_left=-3) == Fail("seven is no number")


def test_the_model_is_not_asked_again_for_what_is_the_fault_of_the_schema() -> None:
    assert of_json(CheckedJson("", "it takes too long", final=True), repairs_left=3) == Fail("it takes too long")


def test_an_answer_that_was_cut_off_says_so() -> None:
    told = "seven is no number; it was cut off at the length limit"
    assert of_json(WRONG, finish_reason="length") == AskAgain(told)


PURE = ToolSpec(name="look", effect=Effect.PURE)


def problems(*calls: tuple[str, str], finish: str, **answered: Any) -> list[str]:
    drafts = tuple(ToolCallDraft(*call) for call in calls)
    answer = ModelAnswer("", "", drafts, finish, Usage(1, 1), "m", **answered)
    decided = after_answer(answer, Rules({"echo": ECHO, "look": PURE}))
    assert isinstance(decided, CallTools)
    return [call.problem for call in decided.calls]


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"a":1}', '{"a'])
@pytest.mark.parametrize("name", ["echo", "look", "ec"])
@pytest.mark.parametrize(
    ("finish", "why"), [("length", "limit of tokens"), ("content_filter", "content filter"), (INTERRUPTED, "a message")]
)
def test_the_last_call_of_an_answer_that_was_cut_is_never_made(
    name: str, arguments: str, finish: str, why: str
) -> None:
    """An unsafe call runs only as the model asked for it: of a cut one nobody knows what was still to come."""
    whole, last = problems(("echo", "{}"), (name, arguments), finish=finish)
    assert whole == ""
    assert "not made" in last
    assert why in last


def test_of_interleaved_calls_none_is_known_to_be_whole_when_the_answer_was_cut() -> None:
    assert all(problems(("echo", "{}"), ("look", "{}"), finish="length", whole_calls=0))
    assert not any(problems(("echo", "{}"), ("look", "{}"), finish="length", whole_calls=2))


@pytest.mark.parametrize(("finish", "said"), [("stop", False), ("tool_calls", False), ("unheard-of", True)])
def test_an_end_that_is_not_known_makes_unsafe_calls_without_arguments_doubtful(finish: str, said: bool) -> None:
    """What may run at any time is run; so are arguments that were written down, for they end by themselves."""
    assert "did not say" in problems(("echo", " "), finish=finish, finish_said=said)[0]
    for call in (("echo", "{}"), ("look", "")):
        assert problems(call, finish=finish, finish_said=said) == [""]


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_a_call_without_arguments_is_made_when_the_answer_came_to_its_end(finish: str) -> None:
    assert problems(("echo", ""), finish=finish) == [""]


def test_calls_beyond_the_last_round_are_answered_with_an_error() -> None:
    answer = ModelAnswer("", "", (ToolCallDraft("echo", "{}"),), "tool_calls", Usage(1, 1), "m")
    decided = after_answer(answer, Rules({"echo": ECHO}, may_call=False))
    assert isinstance(decided, CallTools)
    assert "as often as it may" in decided.calls[0].problem


def test_the_calls_of_an_answer_have_together_no_more_values_than_one_text() -> None:
    """Promise: the arguments of one answer cannot hold a step up, on how many calls they may be spread; small ones are
    made whatever the others have."""
    many, few = '{"a":[' + "1," * 30_000 + "1]}", '{"a":[1,2]}'
    decided = following("", ("echo", many), ("echo", many), ("echo", few))
    assert isinstance(decided, CallTools)
    first, second, third = decided.calls
    assert (first.problem, third.problem) == ("", "")
    assert "more than 19," in second.problem
    assert second.args is None
