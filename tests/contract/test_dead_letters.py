"""Dead letters of versions before 0.2 are read as today's (law 8)."""

import json
from typing import Any

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import is_identifier
from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.work.dead_letters import letter_of_entry

MESSAGE = {"content": "hi", "session_id": "s1", "message_id": "m1", "tenant_id": "acme"}
MAIL = {"message": MESSAGE, "entry_id": "1-1", "at": "now", "context": []}
CALL = {"tenant_id": "acme", "session_id": "s1", "task_id": "task-0-a", "tool_call_id": "call-0-x", "tool": "echo"}


def old(stream: str, fields: dict[str, str], *chain: str) -> dict[str, Any]:
    about = {"stream": stream, "entry_id": "5-0", "reason": "bad", "attempts": 2, "at": "now"}
    return about | {"fields": fields, "chain": list(chain)}


@pytest.mark.parametrize(
    ("written", "kind", "whom", "chain"),
    [
        (old("pentad:inbound", {"data": "{"}), "entry", {}, []),
        (
            old("pentad:{0}:wake:session", {"data": f"1-1 {json.dumps(MESSAGE)}"}, "m1"),
            "session_mail",
            {"tenant_id": "acme", "session_id": "s1"},
            [("message", "m1")],
        ),
        (
            old("pentad:{0}:wake:task", {"1 user": json.dumps(MAIL), "2 result": "{}"}, "m1", "task-0-a"),
            "task_mail",
            {"tenant_id": "acme", "session_id": "s1", "task_id": "task-0-a"},
            [("message", "m1"), ("task", "task-0-a")],
        ),
        (
            old("pentad:{0}:tools:default", {"data": json.dumps(CALL)}, "m1", "task-0-a", "call-0-x"),
            "call",
            {k: v for k, v in CALL.items() if k != "tool"},
            [("message", "m1"), ("task", "task-0-a"), ("call", "call-0-x")],
        ),
        (
            old("pentad:{0}:wake:task", {"data": '{"type":"wake_up","actor":7}'}, ""),
            "entry",
            {},
            [],
        ),
        (
            old("pentad:{0}:archive", {"data": "\\xff"}, "m1", "e1"),
            "entry",
            {},
            [("message", "m1"), ("cause", "e1")],
        ),
    ],
)
def test_an_old_dead_letter_says_the_same_in_the_new_form(
    written: dict[str, Any], kind: str, whom: dict[str, str], chain: list[tuple[str, str]]
) -> None:
    read = DeadLetter.model_validate_json(json.dumps(written))
    assert (read.kind, read.stream, read.entry_id, read.reason, read.attempts) == (
        kind,
        written["stream"],
        "5-0",
        "bad",
        2,
    )
    named = read.model_dump(include={"tenant_id", "session_id", "task_id", "tool_call_id"}, exclude_none=True)
    assert named == whom
    assert [(link.kind, link.id) for link in read.chain] == chain
    assert list(read.body.values()) == list(written["fields"].values())
    assert DeadLetter.model_validate_json(read.to_json()) == read


DEEP = "[" * 5000 + "]" * 5000
HOSTILE: dict[str, dict[str, Any]] = {
    "deep data": old("pentad:{0}:tools:default", {"data": DEEP}),
    "deep mail": old("pentad:{0}:wake:task", {"1 user": DEEP}),
    "no chain": old("pentad:inbound", {"data": "{}"}) | {"chain": None},
    "a number as chain": old("pentad:inbound", {"data": "{}"}) | {"chain": 5},
    "ids that are none": old(
        "pentad:inbound", {"data": '{"tenant_id":"../..","task_id":"\\u0000"}'}, "\x1b[2J", "x" * 999
    ),
    "half a pair": old("pentad:inbound", {"data": '{"tenant_id":"\\ud800"}'}),
    "fields of fields": old("pentad:inbound", {"data": {"a": 1}}),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("written", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_old_letter_holds_it_is_read_and_names_ids_alone(written: dict[str, Any]) -> None:
    read = DeadLetter.model_validate_json(json.dumps(written))
    read.to_json()
    named = [read.tenant_id, read.session_id, read.task_id, read.tool_call_id, *(link.id for link in read.chain)]
    assert [each for each in named if each is not None and not is_identifier(each)] == []


@pytest.mark.parametrize(
    "data",
    [
        DEEP.encode(),
        b'{"correlation_id":"\\ud800","event_id":"\\ud800"}',
        b"\xff" * 100,
        b'{"event_id":"' + b"x" * 40_000 + b'"}',
    ],
    ids=["deep", "half a pair", "no text", "a long id"],
)
def test_a_letter_can_be_made_of_anything(data: bytes) -> None:
    fields = [(b"data", data), (b"\xff\x1b[2J", b"x")]
    letter = letter_of_entry(TOOL_CALLS, "pentad:{0}:tools:default", "1-1", fields, "why \ud800", 1, "now")
    assert DeadLetter.model_validate_json(letter.to_json()) == letter
    assert letter.chain == []
