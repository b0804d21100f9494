"""The checker of prompts finds each fault and passes what is sound."""

from typing import Any

import pytest

from tests.support.models.prompts import ill_formed

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}


def asks(*ids: str, arguments: Any = "{}") -> dict[str, Any]:
    calls = [{"id": call_id, "function": {"name": "f", "arguments": arguments}} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def test_a_sound_conversation_has_no_faults() -> None:
    said = {"role": "assistant", "content": "a"}
    assert (
        ill_formed([SYSTEM, USER, asks("1", "2"), result("1"), result("2"), USER, USER, asks("3"), result("3"), said])
        == []
    )


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "does not begin"),
        ([asks("1"), result("1")], "does not begin"),
        ([USER, asks("1")], "end: 1 has no result"),
        ([USER, asks("1"), USER, result("1")], "1 has no result before"),
        ([USER, asks("1"), USER, result("1")], "3: result for 1, which is not open"),
        ([USER, asks("1"), result("1"), result("1")], "not open"),
        ([USER, result("1")], "not open"),
        ([USER, asks("1", "2"), result("2"), result("1")], "out of order"),
        ([USER, asks("1"), result("1"), asks("1"), result("1")], "used again"),
        ([USER, asks("1", "1"), result("1"), result("1")], "used again"),
        ([USER, asks("1", arguments="{"), result("1")], "not JSON"),
        ([USER, asks("1", arguments="[]"), result("1")], "not an object"),
        ([USER, asks("1", arguments=None), result("1")], "not JSON"),
        ([USER, {"role": "assistant", "content": ""}], "says nothing"),
        ([USER, {"role": "user"}], "without content"),
        ([USER, {"role": "robot", "content": "x"}], "unknown role"),
    ],
)
def test_each_fault_is_found(messages: list[dict[str, Any]], fault: str) -> None:
    assert any(fault in found for found in ill_formed(messages)), ill_formed(messages)
