"""Messages in the forms that model servers take."""

import json
from typing import Any

import pytest

from pentad.shared.models.message_forms import (
    alternating,
    calls_as_text,
    without_empty_text,
    without_nulls,
    without_system,
)
from pentad.shared.models.thoughts import without_thoughts


def said(role: str, content: str | None, **more: Any) -> bytes:
    return json.dumps({"role": role, "content": content} | more, separators=(",", ":"), ensure_ascii=False).encode()


SYSTEM, CALLS = said("system", "be kind"), said("assistant", None, tool_calls=[{"id": "1"}])
RESULTS = [said("tool", "42", tool_call_id="1"), said("tool", "43", tool_call_id="2")]
A, B, C = said("user", "a"), said("user", '猫 "b"\n'), said("user", "c")


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([], []),
        ([SYSTEM, A], [SYSTEM, A]),
        ([SYSTEM, A, B], [SYSTEM, said("user", 'a\n\n猫 "b"\n')]),
        ([A, CALLS, *RESULTS, B, C], [A, CALLS, *RESULTS, said("user", '猫 "b"\n\n\nc')]),
        ([A, B, CALLS, A, B, C], [said("user", 'a\n\n猫 "b"\n'), CALLS, said("user", 'a\n\n猫 "b"\n\n\nc')]),
    ],
)
def test_what_the_user_said_in_a_row_is_one_message(messages: list[bytes], sent: list[bytes]) -> None:
    """Promise: a template that takes turns only is sent turns, and nothing that was said is lost."""
    assert alternating(messages) == sent


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([A, CALLS], [A, CALLS]),
        ([SYSTEM, A, B], [said("user", "be kind\n\na"), B]),
        ([SYSTEM, CALLS, A], [said("user", "be kind"), CALLS, A]),
        ([SYSTEM], [said("user", "be kind")]),
    ],
)
def test_what_the_system_says_is_within_the_first_user_message(messages: list[bytes], sent: list[bytes]) -> None:
    """Promise: a model without a system role is told its instructions all the same."""
    assert without_system(messages) == sent


def test_calls_of_tools_and_their_results_can_be_plain_text() -> None:
    """Promise: a model that takes no messages of tools sees what they did."""
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    called = [A, said("assistant", "let me see", tool_calls=[call]), said("tool", "42", tool_call_id="1"), B]
    assert calls_as_text(called) == [
        A,
        said("assistant", 'let me see\n[I called add with {"a":1}]'),
        said("user", "[add has answered] 42"),
        B,
    ]


def test_an_answer_without_text_can_have_an_empty_one_or_words() -> None:
    """Promise: servers that take no null, or no empty text, are sent neither."""
    assert without_nulls([A, CALLS]) == [A, said("assistant", "", tool_calls=[{"id": "1"}])]
    assert without_empty_text([A, CALLS, said("assistant", "")]) == [
        A,
        said("assistant", "(no text)", tool_calls=[{"id": "1"}]),
        said("assistant", "(no text)"),
    ]


def test_thoughts_can_be_left_out() -> None:
    """Promise: a server that refuses to be sent its own reasoning is sent none."""
    kept = said("assistant", None, tool_calls=[{"id": "1"}], thinking={"of": "openai/m", "fields": {"x": "y"}})
    assert without_thoughts([A, kept]) == [A, CALLS]
