"""How a tool call outside a conversation is asked for, and what a client hears when it cannot be read."""

from typing import Any

import pytest

from pentad.contracts.commands import MAX_CONTENT
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.domain.tool_call import (
    MAX_CALL_ID,
    is_call_session,
    made_call,
    read_call,
    session_of_call,
    tool_of_message,
)


def test_what_is_left_out_has_its_default() -> None:
    asked = read_call({}, "echo")
    assert (asked.content, asked.call_id, asked.user_id) == ('{"tool":"echo","args":{}}', None, None)
    assert (asked.wait_s, asked.timeout_s) == (0.0, None)
    assert tool_of_message(asked.content) == "echo"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"arguments": {}}, "arguments: not known here"),
        ({"args": []}, "args: an object"),
        ({"args": "{}"}, "args: an object"),
        ({"args": {"text": "\ud800"}}, "surrogate"),
        ({"args": {"\udc00": 1}}, "surrogate"),
        ({"args": {"text": "x" * MAX_CONTENT}}, "at most 65536 characters"),
        ({"call_id": ""}, "call_id"),
        ({"call_id": "a b"}, "call_id"),
        ({"call_id": "a/b"}, "call_id"),
        ({"call_id": 7}, "call_id"),
        ({"call_id": "x" * (MAX_CALL_ID + 1)}, "call_id"),
        ({"user_id": "a\u202eb"}, "user_id"),
        ({"user_id": {}}, "user_id"),
        ({"wait": "10"}, "wait"),
        ({"wait": True}, "wait"),
        ({"wait": -1}, "wait"),
        ({"wait": 601}, "wait"),
        ({"wait": float("nan")}, "wait"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 10**30}, "timeout"),
    ],
)
def test_what_cannot_be_read_is_told_by_its_name(body: dict[str, Any], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_call(body, "echo")


def test_a_call_has_a_session_of_its_own_that_no_conversation_is_taken_for() -> None:
    assert is_call_session(session_of_call("a"))
    assert len(session_of_call("x" * MAX_CALL_ID)) <= 128
    assert not is_call_session("call:1")


@pytest.mark.parametrize("content", ["", "no JSON", "[]", '{"tool":7}', "{}", "null"])
def test_a_message_that_is_no_call_names_no_tool(content: str) -> None:
    assert tool_of_message(content) is None


def test_the_newest_call_of_a_transcript_is_meant() -> None:
    assert made_call([{"role": "user"}, {"tool_calls": []}]) is None
    assert made_call([{"tool_calls": [{"id": "a"}]}, {"tool_calls": [{"id": "b"}]}, {"role": "tool"}]) == "b"
