"""Which conversations a model call outside a conversation may have, and what a client hears of others."""

from typing import Any

import pytest

from pentad.services.gateway.domain.completion import read_completion
from pentad.services.gateway.domain.frames import UnreadableError

HELLO = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "echo", "arguments": '{"text":"x"}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "x"}
TOOL = {"type": "function", "function": {"name": "echo", "parameters": {"type": "object"}}}


def test_messages_come_in_the_form_of_transcripts_whatever_the_order_of_their_fields() -> None:
    given = [
        dict(reversed(each.items())) for each in ({"role": "system", "content": "Be short."}, HELLO, ASKED, RESULT)
    ]
    asked = read_completion({"messages": given, "tools": ["calculator", TOOL], "max_tokens": 5, "temperature": 1})
    assert [list(message) for message in asked.messages] == [
        ["role", "content"],
        ["role", "content"],
        ["role", "content", "tool_calls"],
        ["role", "tool_call_id", "content"],
    ]
    assert (asked.named_tools, asked.max_tokens, asked.temperature, asked.stream) == (["calculator"], 5, 1.0, False)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "messages"),
        ([HELLO] * 1_001, "messages"),
        ("hello", "messages"),
        ([{"role": "developer", "content": "x"}], "messages.0.role"),
        ([HELLO | {"thinking": {"of": "x"}}], "messages.0.thinking"),
        ([HELLO | {"name": "ada"}], "messages.0.name"),
        ([{"role": "user", "content": None}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "messages.0.content"),
        ([{"role": "user", "content": "\ud800"}], "surrogate"),
        ([HELLO, {"role": "system", "content": "x"}], "messages.1: the system message comes first"),
        ([HELLO, RESULT], "messages.1.tool_call_id"),
        ([HELLO, ASKED], "the last tool calls need"),
        ([HELLO, ASKED, HELLO], "messages.2: the tool calls before it"),
        ([HELLO, ASKED, RESULT, RESULT], "messages.3.tool_call_id"),
        ([HELLO, ASKED | {"tool_calls": [CALL, CALL]}, RESULT], "two have the same id"),
        ([HELLO | {"tool_calls": [CALL]}], "messages.0.tool_calls"),
        ([HELLO | {"tool_call_id": "c1"}], "messages.0.tool_call_id"),
        ([ASKED | {"tool_calls": [CALL | {"id": 'a"b'}]}], "messages.0.tool_calls.0.id"),
    ],
)
def test_what_model_servers_refuse_is_refused_with_its_place(messages: Any, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_completion({"messages": messages})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"model": "small"}, "model"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stream": 1}, "stream"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 601}, "timeout"),
        ({"tools": ["echo"] * 129}, "tools"),
        ({"tools": ["a b"]}, "tools"),
        ({"tools": ["echo", TOOL]}, "echo is named twice"),
        ({"tools": [{"type": "function"}]}, "tools"),
    ],
)
def test_what_is_out_of_bounds_is_told_by_its_name(more: dict[str, Any], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_completion({"messages": [HELLO]} | more)
