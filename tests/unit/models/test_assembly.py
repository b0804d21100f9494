"""Chunks of every habit that servers have become one answer."""

import json
import math
from typing import Any

import pytest

from pentad.shared.models.assembly import Assembly
from pentad.shared.models.loose_values import parse_object
from pentad.shared.models.ports import ToolCallDraft, Usage


def delta(**fields: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def part(arguments: str = "", **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    return {**fields, "function": function}


def assemble(*chunks: dict[str, Any]) -> tuple[Assembly, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []
    assembly = Assembly(lambda kind, text: seen.append((kind, text)))
    for chunk in chunks:
        assembly.add(chunk)
    return assembly, seen


CALLS: dict[str, tuple[list[list[Any]], list[tuple[str, str]]]] = {
    "name and arguments in one piece": (
        [[part('{"a":1}', index=0, id="x", name="f")]],
        [("f", '{"a":1}')],
    ),
    "name and arguments split anywhere": (
        [
            [part(index=0, id="x", name="cal")],
            [part("", index=0, name="culator")],
            [part('{"a"', index=0)],
            [part(":1}", index=0)],
        ],
        [("calculator", '{"a":1}')],
    ),
    "a name said again before the arguments": (
        [[part(index=0, id="x", name="add")], [part(index=0, id="x", name="add")], [part("{}", index=0)]],
        [("add", "{}")],
    ),
    "a name said as far as it is known": (
        [[part(index=0, id="x", name="cal")], [part("{}", index=0, name="calculator")]],
        [("calculator", "{}")],
    ),
    "the same index and empty ids": (
        [[part("{}", index=0, id="", name="f")], [part("{}", index=0, id="", name="g")]],
        [("f", "{}"), ("g", "{}")],
    ),
    "the same index, empty ids and the same name": (
        [[part('{"a":1}', index=0, id="", name="f")], [part('{"a":2}', index=0, id="", name="f")]],
        [("f", '{"a":1}'), ("f", '{"a":2}')],
    ),
    "the same index, empty ids and one delta": (
        [[part("", index=0, id="", name="f"), part("", index=0, id="", name="f")]],
        [("f", ""), ("f", "")],
    ),
    "the same index, and the second call in pieces": (
        [[part("{}", index=0, id="x", name="f")], [part("{", index=0, id="y", name="g")], [part("}", index=0)]],
        [("f", "{}"), ("g", "{}")],
    ),
    "no index, no id, no arguments": ([[part(name="f")], [part(name="g")]], [("f", ""), ("g", "")]),
    "no index, no id, one delta": ([[part(name="f"), part("{}", name="f")]], [("f", ""), ("f", "{}")]),
    "no index, no id, the name repeated": (
        [[part("{", name="f")], [part("}", name="f")]],
        [("f", "{}")],
    ),
    "no index, an id that comes later": ([[part(name="f")], [part("{}", id="x")]], [("f", "{}")]),
    "an id of its own for each piece": (
        [[part("{", index=0, id="x", name="f")], [part("}", index=0, id="y", name="f")]],
        [("f", "{}")],
    ),
    "the name once more at the end": (
        [[part("{}", index=0, id="", name="f")], [part("", index=0, id="", name="f")]],
        [("f", "{}")],
    ),
    "two calls interleaved": (
        [
            [part(index=0, id="x", name="f")],
            [part("{", index=1, id="y", name="g")],
            [part("{", index=0)],
            [part("}", index=1), part("}", index=0)],
        ],
        [("f", "{}"), ("g", "{}")],
    ),
    "in the order of the index": (
        [[part("1", index=1, id="y", name="g")], [part("0", index=0, id="x", name="f")]],
        [("f", "0"), ("g", "1")],
    ),
    "without an index, told apart by id": (
        [[part("{", id="x", name="f")], [part("{", id="y", name="g")], [part("}", id="x")], [part("}", id="y")]],
        [("f", "{}"), ("g", "{}")],
    ),
    "without index or id": ([[part("{", name="f")], [part("}")], [part("[]", name="g")]], [("f", "{}"), ("g", "[]")]),
    "two whole calls in one chunk, no index": (
        [[part("1", id="x", name="f"), part("2", id="y", name="f")]],
        [("f", "1"), ("f", "2")],
    ),
    "the same index for parallel calls": (
        [[part("1", index=0, id="x", name="f")], [part("2", index=0, id="y", name="f")]],
        [("f", "1"), ("f", "2")],
    ),
    "the name repeated with each piece": (
        [[part("{", index=0, id="x", name="f")], [part("}", index=0, id="x", name="f")]],
        [("f", "{}")],
    ),
    "an empty id in later pieces": (
        [[part("{", index=0, id="x", name="f")], [part("}", index=0, id="", name="")]],
        [("f", "{}")],
    ),
    "arguments as an object": (
        [[{"index": 0, "function": {"name": "f", "arguments": {"a": "é"}}}]],
        [("f", '{"a": "é"}')],
    ),
    "no arguments at all": ([[{"index": 0, "id": "x", "function": {"name": "f"}}]], [("f", "")]),
    "husks and nonsense": (
        [[None, 3, "x", {}, {"function": None}, {"index": "a", "function": {"name": 5}}, {"index": -1}]],
        [],
    ),
    "an index out of all bounds": ([[part("{}", index=10**30, id="x", name="f")]], [("f", "{}")]),
}


@pytest.mark.parametrize("case", CALLS)
def test_tool_calls_are_put_together(case: str) -> None:
    chunks, expected = CALLS[case]
    assembly, _ = assemble(*(delta(tool_calls=calls) for calls in chunks))
    assert assembly.answer("m").tool_calls == tuple(ToolCallDraft(*call) for call in expected)


def test_text_and_thinking_reach_the_sink_as_they_come_and_the_answer_whole() -> None:
    assembly, seen = assemble(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(reasoning="m", content=None),
        delta(content="Hel"),
        delta(content="lo"),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )
    assert seen == [("thinking", "hm"), ("thinking", "m"), ("content", "Hel"), ("content", "lo")]
    answer = assembly.answer("asked")
    assert (answer.text, answer.thinking, answer.finish_reason, answer.model) == ("Hello", "hmm", "stop", "m-1")
    assert answer.usage == Usage(3, 2)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage(0, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.01}, Usage(3, 2, 0.01)),
        ({"prompt_tokens": -3, "completion_tokens": "two", "cost": float("nan")}, Usage(0, 0)),
        ({"prompt_tokens": True, "completion_tokens": 2.5, "cost": True}, Usage(0, 0)),
        ({"prompt_tokens": 10**12, "completion_tokens": 10**12 + 1, "cost": 1e6}, Usage(10**12, 0, 1e6)),
        ({"prompt_tokens": int("9" * 308), "completion_tokens": 1, "cost": 10**308}, Usage(0, 1)),
        ({"prompt_tokens": float("inf"), "completion_tokens": 1, "cost": float("inf")}, Usage(0, 1)),
        ({"prompt_tokens": "-3", "completion_tokens": "1" * 5_000}, Usage(0, 0)),
        ({"prompt_tokens": "٣", "completion_tokens": "1.5"}, Usage(0, 0)),
        ([1], Usage(0, 0)),
    ],
)
def test_usage_that_is_missing_or_nonsense_counts_nothing(usage: Any, expected: Usage) -> None:
    assembly, _ = assemble(delta(content="x"), {"choices": [], "usage": usage})
    assert assembly.answer("m").usage == expected


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"finish_reason": "max_tokens"}, "length"),
        ({"finish_reason": "sensitive"}, "content_filter"),
        ({"finish_reason": "something new"}, "something new"),
        ({"delta": {"refusal": "I will not."}, "finish_reason": "stop"}, "content_filter"),
        (
            {"delta": {"function_call": {"name": "f", "arguments": "{}"}}, "finish_reason": "function_call"},
            "tool_calls",
        ),
    ],
)
def test_why_an_answer_ended_is_said_in_the_words_of_the_house(choice: dict[str, Any], reason: str) -> None:
    assembly, _ = assemble({"choices": [choice]})
    assert assembly.answer("m").finish_reason == reason


@pytest.mark.parametrize("reason", ["error", "abort", "network_error", "insufficient_system_resource"])
def test_a_server_that_gives_up_has_not_answered(reason: str) -> None:
    with pytest.raises(ValueError, match=f"gave up .finish_reason {reason}"):
        assemble(delta(content="half"), {"choices": [{"delta": {}, "finish_reason": reason}]})


def test_a_refusal_is_what_the_model_says() -> None:
    assembly, seen = assemble(delta(refusal="I will "), delta(refusal="not.", content=None))
    assert seen == [("content", "I will "), ("content", "not.")]
    assert assembly.answer("m").text == "I will not."


def test_a_function_call_of_old_is_a_tool_call() -> None:
    assembly, _ = assemble(
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"a"'}),
        delta(function_call={"arguments": ":1}"}),
        {"choices": [{"delta": {}, "finish_reason": "function_call"}]},
    )
    assert assembly.answer("m").tool_calls == (ToolCallDraft("f", '{"a":1}'),)


def test_thoughts_in_parts_of_the_content_are_thoughts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    _, seen = assemble(delta(content=[thought, {"type": "text", "text": "so"}]))
    assert seen == [("thinking", "hm"), ("content", "so")]


def test_what_a_server_calls_itself_and_its_tools_has_a_bound() -> None:
    """Names go into headers, events and records: 64 MiB of answer may not become 64 MiB of name."""
    long = "x" * 100_000
    assembly, _ = assemble(
        {"model": long, "choices": [{"delta": {"tool_calls": [part("{}", index=0, id="x", name=long)] * 3}}]},
        {"choices": [{"delta": {}, "finish_reason": long}]},
    )
    answer = assembly.answer("m")
    assert [len(text) for text in (answer.model, answer.finish_reason, answer.tool_calls[0].name)] == [256] * 3


def test_arguments_as_an_object_that_is_no_json_stay_recognisable() -> None:
    assembly, _ = assemble(delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": {"a": math.nan}}}]))
    assert assembly.answer("m").tool_calls == (ToolCallDraft("f", '{"a": NaN}'),)


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": "x"},
        {"choices": [None]},
        {"choices": [[]]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": {}, "reasoning": {"a": 1}}}]},
        {"choices": [{"index": 1, "delta": {"content": "a second answer"}}]},
        {"model": 5, "choices": [{"delta": {"content": ""}}]},
    ],
)
def test_chunks_without_sense_are_passed_over(chunk: dict[str, Any]) -> None:
    assembly, seen = assemble(chunk)
    assert seen == []
    assert assembly.empty


def test_content_in_parts_is_text() -> None:
    _, seen = assemble(delta(content=[{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]))
    assert seen == [("content", "ab")]


def test_an_answer_that_was_not_streamed_is_read_alike() -> None:
    message = {
        "role": "assistant",
        "content": "hi",
        "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}],
    }
    assembly, seen = assemble({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert seen == [("content", "hi")]
    assert assembly.answer("m").tool_calls == (ToolCallDraft("f", "{}"),)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":"\\ud83d\\ude00"}', "😀"),
        (b'{"a":"x\\ud83d"}', "x?"),
        (b'{"a":"x\xff"}', "x\ufffd"),
        ('{"a":"é你"}'.encode(), "é你"),
    ],
)
def test_damaged_text_is_repaired_so_that_it_can_be_stored(data: bytes, expected: str) -> None:
    text = parse_object(data)["a"]
    assert text == expected
    text.encode()


@pytest.mark.parametrize("many", [b"[],", b'{"a":1},'])
def test_a_document_of_nothing_but_brackets_is_refused_before_it_is_read(many: bytes) -> None:
    with pytest.raises(ValueError, match="more than 100,000 values"):
        parse_object(b'{"x":[' + many * 100_000 + b"0]}")
    assert len(parse_object(b'{"x":[' + many * 40_000 + b"0]}")["x"]) == 40_001


@pytest.mark.parametrize("damage", [b"\\ud800", b"\xff"])
def test_characters_of_a_large_document_are_not_mended(damage: bytes) -> None:
    """Promise: nobody waits while megabytes are read twice and written once."""
    small, large = (b'{"x":"' + damage + b"a" * size + b'"}' for size in (1_000, 1 << 20))
    assert set(parse_object(small)["x"]) <= {"a", "?", "\ufffd"}
    with pytest.raises(ValueError, match=r"hex escape|unicode"):
        parse_object(large)


def test_brackets_and_commas_within_a_text_are_no_values() -> None:
    text = '[{,"' * 100_000
    assert parse_object(json.dumps({"x": text}).encode()) == {"x": text}


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"nul", b'{"a":', b"[" * 100_000, b'{"a":' * 5000, b"\xff\xfe"])
def test_what_is_not_a_json_object_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_object(data)


@pytest.mark.parametrize(
    ("deltas", "whole"),
    [
        ([[part("{}", index=0, id="x", name="f")]], 0),
        ([[part("{}", index=0, id="x", name="f")], [part("", index=1, id="y", name="g")]], 1),
        ([[part("{}", index=0, id="x", name="f")], [part("", index=1, id="y")]], 1),
        ([[part("{", index=0, id="x", name="f")], [part("{}", index=1, id="y", name="g")], [part("}", index=0)]], 0),
        ([[part("{}", id="x", name="f"), part("{}", id="y", name="g"), part("", id="z", name="h")]], 2),
    ],
)
def test_calls_that_another_one_followed_are_whole_when_the_answer_breaks_off(
    deltas: list[list[dict[str, Any]]], whole: int
) -> None:
    assembly, _ = assemble(*(delta(tool_calls=calls) for calls in deltas))
    answer = assembly.answer("m")
    assert (answer.whole_calls, answer.finish_said) == (whole, False)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("SAFETY", "content_filter"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("tool_use", "tool_calls"),
        ("null", ""),
        ("unheard-of", "unheard-of"),
    ],
)
def test_reasons_of_an_end_are_known_in_the_words_of_each_server(said: str, means: str) -> None:
    assembly, _ = assemble({"choices": [{"delta": {"content": "hi"}, "finish_reason": said}]})
    assert assembly.finish_reason == means


@pytest.mark.parametrize("cut", ["length", "max_tokens", "content_filter"])
@pytest.mark.parametrize("later", ["stop", "tool_calls", "eos"])
def test_an_answer_that_was_cut_is_not_made_whole_by_a_later_reason(cut: str, later: str) -> None:
    """Promise: a cut call of an unsafe tool does not run, also where a proxy closes the stream in its own words."""
    assembly = Assembly(lambda *_: None)
    call = {"index": 0, "id": "c", "function": {"name": "pay", "arguments": ""}}
    assembly.add({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": cut}]})
    assembly.add({"choices": [{"delta": {}, "finish_reason": later}]})
    assert assembly.answer("m").finish_reason in ("length", "content_filter")


def test_a_message_behind_the_deltas_adds_only_what_has_not_come() -> None:
    shown: list[str] = []
    assembly = Assembly(lambda _, text: shown.append(text))
    assembly.add({"choices": [{"delta": {"content": "Hel"}}]})
    assembly.add({"choices": [{"delta": {"content": "lo"}}]})
    call = {"id": "c", "function": {"name": "echo", "arguments": "{}"}}
    assembly.add({"choices": [{"message": {"content": "Hello", "tool_calls": [call]}, "finish_reason": "stop"}]})
    assert (shown, assembly.answer("m").text) == (["Hel", "lo"], "Hello")
    assert [each.name for each in assembly.answer("m").tool_calls] == ["echo"]


@pytest.mark.parametrize(
    "entries",
    [
        [
            {"index": "0", "function": {"name": "echo", "arguments": '{"a"'}},
            {"index": "0", "function": {"arguments": ":1}"}},
        ],
        [
            {"index": 0.0, "function": {"name": "echo", "arguments": '{"a"'}},
            {"index": 0, "function": {"arguments": ":1}"}},
        ],
        [
            {"index": 0, "function": {"name": "echo", "arguments": '{"a"'}},
            {"index": 1, "function": {"arguments": ":1}"}},
        ],
        [{"id": "x", "function": {"name": "echo", "arguments": '{"a"'}}, {"id": "y", "function": {"arguments": ":1}"}}],
        [{"index": 0, "name": "echo", "arguments": '{"a"'}, {"index": 0, "arguments": ":1}"}],
        [
            {"index": 0, "function": {"name": "echo", "arguments": '{"a"'}},
            {"index": 0, "function": {"arguments": '{"a":1}'}},
        ],
    ],
    ids=["texts", "floats", "growing", "new ids", "bare", "cumulative"],
)
def test_a_call_in_pieces_is_one_however_they_are_numbered_and_wrapped(entries: list[dict[str, Any]]) -> None:
    assembly = Assembly(lambda *_: None)
    for entry in entries:
        assembly.add({"choices": [{"delta": {"tool_calls": [entry]}}]})
    assert [(call.name, call.arguments) for call in assembly.answer("m").tool_calls] == [("echo", '{"a":1}')]


@pytest.mark.parametrize(
    ("chunk", "usage"),
    [
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, Usage(7, 3)),
        ({"choices": [{"usage": {"prompt_tokens": 7, "completion_tokens": 3}}]}, Usage(7, 3)),
        ({"x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}}, Usage(7, 3)),
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}},
            Usage(7, 3, cached_tokens=5),
        ),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3, "cached_tokens": 5}}, Usage(7, 3, cached_tokens=5)),
        ({"usage": {"prompt_tokens": 7, "prompt_cache_hit_tokens": 9}}, Usage(7, 0, cached_tokens=7)),
        ({"usage": {"prompt_tokens": "1000", "completion_tokens": "20"}}, Usage(1000, 20)),
        ({"usage": {"prompt_tokens": 7.0, "completion_tokens": 3.0}}, Usage(7, 3)),
        ({"usage": {"input_tokens": 7, "output_tokens": 3}}, Usage(7, 3)),
        ({"usage": {"prompt_tokens": 0, "input_tokens": 7, "output_tokens": "3"}}, Usage(7, 3)),
        (
            {"usage": {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}},
            Usage(7, 3, cached_tokens=5),
        ),
        ({"usage": "7", "x_groq": [], "choices": [{"usage": [1]}]}, Usage(0, 0)),
    ],
)
def test_tokens_are_counted_wherever_a_server_writes_them(chunk: dict[str, Any], usage: Usage) -> None:
    """Promise: a budget counts what OpenAI's, Moonshot's, Groq's and DeepSeek's servers say of it."""
    assembly = Assembly(lambda *_: None)
    assembly.add(chunk)
    assert assembly.answer("m").usage == usage


def test_a_call_behind_whole_arguments_in_pieces_is_another_one() -> None:
    """Promise: a server that gives all calls the same index makes two calls of the same tool, not one."""
    assembly = Assembly(lambda *_: None)
    for call_id, name, arguments in (("c1", "add", "{"), ("", "", "}"), ("c2", "add", "{}")):
        entry = {"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}
        assembly.add({"choices": [{"delta": {"tool_calls": [entry]}}]})
    assert assembly.answer("m").tool_calls == (ToolCallDraft("add", "{}"), ToolCallDraft("add", "{}"))
