"""What any Redis client may write to the inbound stream is taken or refused with a reason; nothing else happens."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from pentad.contracts.commands import MAX_CONTENT, InboundMessage, command_adapter
from pentad.contracts.events import event_adapter
from pentad.contracts.ids import is_external_id, is_identifier, milliseconds
from pentad.shared.work.entry import complaint

SURROGATE = "\\ud800"
DEEP = "[" * 100_000 + "]" * 100_000


def message(**fields: Any) -> bytes:
    return json.dumps({"content": "hi", **fields}).encode()


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "Invalid JSON"),
    "no JSON": (b"hello", "Invalid JSON"),
    "half an object": (b'{"content":"hi"', "Invalid JSON"),
    "two objects": (b'{"content":"hi"}{"content":"ho"}', "Invalid JSON"),
    "a list": (b'["hi"]', "object"),
    "null": (b"null", "object"),
    "bytes that are not UTF-8": (b'{"content":"\xff\xfe"}', "Invalid JSON"),
    "a byte order mark": (b'\xef\xbb\xbf{"content":"hi"}', "Invalid JSON"),
    "a raw NUL": (b'{"content":"a\x00b"}', "Invalid JSON"),
    "a lone surrogate": (f'{{"content":"{SURROGATE}"}}'.encode(), "Invalid JSON"),
    "a lone surrogate in a key": (f'{{"content":"hi","metadata":{{"{SURROGATE}":""}}}}'.encode(), "Invalid JSON"),
    "a lone surrogate in what is dropped": (f'{{"content":"hi","x":"{SURROGATE}"}}'.encode(), "Invalid JSON"),
    "deep nesting": (f'{{"content":"hi","metadata":{DEEP}}}'.encode(), "recursion limit"),
    "deep nesting in what is dropped": (f'{{"content":"hi","x":{DEEP}}}'.encode(), "recursion limit"),
    "a number of many digits": (b'{"content":"hi","budget":{"tokens":1' + b"0" * 5000 + b"}}", "Invalid JSON"),
    "no content": (b"{}", "content: Field required"),
    "empty content": (message(content=""), "content: "),
    "content too long": (message(content="x" * (MAX_CONTENT + 1)), "content: "),
    "content null": (message(content=None), "content: "),
    "content a number": (message(content=1), "content: "),
    "content a list": (message(content=["hi"]), "content: "),
    "session a number": (message(session_id=7), "session_id: "),
    "session true": (message(session_id=True), "session_id: "),
    "session an object": (message(session_id={"id": "s1"}), "session_id: "),
    "tenant null": (message(tenant_id=None), "tenant_id: "),
    "metadata a list": (message(metadata=["a"]), "metadata: "),
    "metadata with a number": (message(metadata={"a": 1}), "metadata.a: "),
    "metadata with null": (message(metadata={"a": None}), "metadata.a: "),
    "deadline a number": (message(deadline=1896091200), "deadline: "),
    "deadline without a zone": (message(deadline="2030-01-31T12:00:00"), "no time zone"),
    "deadline in another form of ISO 8601": (message(deadline="20300131T120000Z"), "RFC 3339"),
    "deadline after the year 9999": (message(deadline="9999-12-31T23:59:59.999-23:59"), "9999"),
    "deadline that is no time": (message(deadline="soon"), "deadline: "),
    "deadline on no day": (message(deadline="2030-02-31T12:00:00Z"), "deadline: "),
    "deadline in year 10000": (message(deadline="10000-01-01T00:00:00Z"), "deadline: "),
    "budget a number": (message(budget=5), "budget: "),
    "budget below zero": (message(budget={"tokens": -1}), "budget.tokens: "),
    "budget with a fraction": (message(budget={"steps": 1.5}), "budget.steps: "),
    "budget not a number": (b'{"content":"hi","budget":{"usd":NaN}}', "budget.usd: "),
    "budget without an end": (b'{"content":"hi","budget":{"usd":1e999}}', "budget.usd: "),
    "metadata not a number": (b'{"content":"hi","metadata":{"a":NaN}}', "metadata.a: "),
    "budget below zero dollars": (message(budget={"usd": -0.01}), "budget.usd: "),
    "another version": (message(version=2), "version: Input should be 1"),
}

ACCEPTED: dict[str, bytes] = {
    "the longest content": message(content="x" * MAX_CONTENT),
    "the longest content of four bytes each": message(content="🌡" * MAX_CONTENT),
    "a blank": message(content=" "),
    "an escaped NUL": b'{"content":"a\\u0000b"}',
    "a pair of surrogates": b'{"content":"\\ud83c\\udf21"}',
    "line separators and right to left": message(content="a\u2028b\u202ec\x1b[31m"),
    "a field twice, of which the last counts": b'{"content":"no","content":"hi"}',
    "unknown fields": message(type="task_end", event_id=1, __class__="x"),
    "the longest ids": message(session_id="s" * 128, message_id="m" * 128, user_id="u" * 128, tenant_id="t" * 128),
    "every character of an id": message(session_id="0AZaz09._~@-"),
    "a deadline that has passed": message(deadline="1970-01-01T00:00:00Z"),
    "a deadline at the end of time": message(deadline="9999-12-31T23:59:59.999Z"),
    "a deadline at its beginning": message(deadline="0001-01-01T00:00:00+23:59"),
    "an empty budget": message(budget={}),
    "a budget of nothing": message(budget={"tokens": 0, "usd": 0, "steps": 0}),
}

BAD_IDS = [
    *[
        "",
        " ",
        "-a",
        ".a",
        "~a",
        "@a",
        "_a",
        "a b",
        "a/b",
        "a:b",
        "a*",
        "a?",
        "a[b]",
        "a'b",
        'a"b',
        "a\\b",
        "a%2Fb",
        "../a",
    ],
    *["a{0}", "{pentad:inbound}", "a\n", "a\r\n", "\na", "a\x00", "a\x00b", "é", "aé", "\uff21", "a\u0660", "a\u200b"],
    *["a" * 129, "a" * 100_000],
]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_in_one_line(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(ValidationError) as refused:
        InboundMessage.model_validate_json(data)
    said = complaint(refused.value)
    assert reason in said
    assert "\n" not in said
    assert len(said) < 1000


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_and_the_same_after_a_second_reading(name: str) -> None:
    read = InboundMessage.model_validate_json(ACCEPTED[name])
    assert InboundMessage.model_validate_json(read.to_json()) == read
    assert read.deadline is None or isinstance(milliseconds(read.deadline), int)


BAD_EXTERNAL_IDS = [
    *["", " ", "a b", "a\u00a0b", "a\u3000b", "a/b", "/", "a\n", "a\r\n", "\na", "a\x00", "a\x7fb", "a\x85b"],
    *["a\u200b", "a\u202eb", "\ufeffa", "\u2066", "a\u2028b", "\ue000", "\uffff", "a" * 129, "é" * 129, "a" * 100_000],
]


@pytest.mark.parametrize("field", ["session_id", "message_id", "user_id"])
@pytest.mark.parametrize("bad", BAD_EXTERNAL_IDS, ids=lambda text: repr(text[:12]))
def test_an_id_of_another_system_that_cannot_be_shown_is_refused(field: str, bad: str) -> None:
    """Ids of users, sessions and messages are printable, without spaces and slashes, of 128 characters at most."""
    with pytest.raises(ValidationError) as refused:
        InboundMessage.model_validate_json(message(**{field: bad}))
    assert complaint(refused.value).startswith(f"{field}: ")
    assert len(complaint(refused.value)) < 200, "the value itself is not repeated"
    assert not is_external_id(bad)


@pytest.mark.parametrize("field", ["task_id", "tenant_id", "instruction"])
@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda text: repr(text[:12]))
def test_an_identifier_with_other_characters_is_refused(field: str, bad: str) -> None:
    with pytest.raises(ValidationError) as refused:
        InboundMessage.model_validate_json(message(**{field: bad}))
    assert complaint(refused.value).startswith(f"{field}: ")
    assert len(complaint(refused.value)) < 200, "the value itself is not repeated"


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda text: repr(text[:12]))
def test_both_ways_to_check_an_identifier_agree(bad: str) -> None:
    assert not is_identifier(bad)


@pytest.mark.parametrize("data", [data for data, _ in REFUSED.values()] + [b'{"type":"nobody"}', b'{"type":{}}', b"{}"])
def test_commands_and_events_refuse_it_too(data: bytes) -> None:
    for adapter in (command_adapter, event_adapter):
        with pytest.raises(ValidationError):
            adapter.validate_json(data)
