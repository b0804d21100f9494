"""User messages in a row become one."""

import json
from typing import Any

import pytest

from pentad.shared.models.alternation import alternating, wants_alternation


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
    assert alternating(messages) == sent


@pytest.mark.parametrize(
    ("words", "wants"),
    [
        ("Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...", True),
        ("After the optional system message, conversation roles must alternate user/assistant", True),
        ("the request exceeds the available context size", False),
    ],
)
def test_a_refusal_says_that_roles_must_alternate(words: str, wants: bool) -> None:
    assert wants_alternation(words) is wants
