"""What comes next when the model has answered, decided from the answer and the tools alone."""

from collections.abc import Mapping

import pytest

from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.domain.after_answer import (
    CallTools,
    Complete,
    Next,
    parse_arguments,
    what_comes_next,
)
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft, Usage

ECHO = ToolSpec(name="echo")


def following(text: str, *calls: tuple[str, str], tools: Mapping[str, ToolSpec] | None = None) -> Next:
    drafts = tuple(ToolCallDraft(*call) for call in calls)
    answer = ModelAnswer(text, "", drafts, "stop", Usage(1, 1), "m")
    return what_comes_next(answer, {"echo": ECHO} if tools is None else tools)


@pytest.mark.parametrize("text", ["done", ""])
def test_an_answer_without_calls_is_the_last(text: str) -> None:
    assert following(text) == Complete("answered")


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


@pytest.mark.parametrize(
    ("raw", "args", "problem"),
    [
        ('{"a":1}', {"a": 1}, ""),
        ("", {}, ""),
        ("{", None, "are not JSON"),
        ("[1]", None, "are not a JSON object"),
        ("null", None, "are not a JSON object"),
        ('"text"', None, "are not a JSON object"),
        ('{"a":1e308}', {"a": 1e308}, ""),
        ('{"a":NaN}', None, "are not JSON"),
        ('{"a":[{"b":-Infinity}]}', None, "are not JSON"),
        ('{"a":[1e999]}', None, "are not JSON (a number in it is too large)"),
    ],
)
def test_arguments_are_an_object_or_a_problem(raw: str, args: dict[str, object] | None, problem: str) -> None:
    parsed = parse_arguments(raw)
    assert (parsed.args, parsed.raw if args is None else raw) == (args, raw)
    assert problem in parsed.problem
    assert bool(parsed.problem) is bool(problem)
