"""Events of the Anthropic protocol become one answer in the house's words, whatever a server makes of them."""

from typing import Any

import pytest

from pentad.shared.models.anthropic.assembly import MessageAssembly
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft, Usage


def start(index: Any, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(said: Any, index: Any = 0) -> dict[str, Any]:
    return delta(index, "text_delta", text=said)


def tool(index: Any, name: str = "f", **more: Any) -> dict[str, Any]:
    return start(index, type="tool_use", id=f"toolu_{index}", name=name, **({"input": {}} | more))


def piece(index: Any, partial: Any) -> dict[str, Any]:
    return delta(index, "input_json_delta", partial_json=partial)


def end(reason: Any, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def assemble(*events: dict[str, Any]) -> tuple[ModelAnswer, list[tuple[str, str]]]:
    seen: list[tuple[str, str]] = []
    assembly = MessageAssembly(lambda kind, said: seen.append((kind, said)))
    for event in events:
        assembly.add(event)
    return assembly.answer("asked"), seen


def test_blocks_are_passed_on_in_their_order() -> None:
    answer, seen = assemble(
        start(0, type="thinking", thinking="a", signature=""),
        delta(0, "thinking_delta", thinking="b"),
        delta(0, "signature_delta", signature="c2ln"),
        start(1, type="redacted_thinking", data="c2VjcmV0"),
        start(2, type="text", text=""),
        text("c", 2),
        start(3, type="text", text="d"),
    )
    assert seen == [("thinking", "ab"), ("content", "c"), ("content", "d")]
    assert (answer.thinking, answer.text) == ("ab", "cd")


@pytest.mark.parametrize(
    ("opening", "deltas", "said"),
    [
        ("Hello", ["Hel", "lo"], "Hello"),
        ("Hello", ["Hello world"], "Hello world"),
        ("Hello", ["Hel", "lo wor", "ld"], "Hello world"),
        ("Hel", ["lo"], "Hello"),
        ("ab", ["a", "c"], "abac"),
        ("ab", ["a"], "aba"),
        ("ab", [], "ab"),
    ],
)
@pytest.mark.parametrize("kind", ["text", "thinking"])
def test_what_a_block_begins_with_and_its_deltas_say_again_is_said_once(
    kind: str, opening: str, deltas: list[str], said: str
) -> None:
    answer, seen = assemble(
        start(0, type=kind, **{kind: opening}), *(delta(0, f"{kind}_delta", **{kind: piece}) for piece in deltas)
    )
    assert (answer.text or answer.thinking, "".join(text for _, text in seen)) == (said, said)


CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "in pieces": ([tool(1), piece(1, '{"a"'), piece(1, ":1}")], [("f", '{"a":1}')]),
    "interleaved, in the order of the index": (
        [tool(2, "g"), tool(1), piece(1, "{"), piece(2, "["), piece(1, "}"), piece(2, "]")],
        [("f", "{}"), ("g", "[]")],
    ),
    "without arguments": ([tool(0), piece(0, "")], [("f", "")]),
    "arguments that are no JSON stay as they are": ([tool(0), piece(0, '{"a": nope')], [("f", '{"a": nope')]),
    "arguments given whole": ([tool(0, input={"a": 1})], [("f", '{"a": 1}')]),
    "a second call under one index": (
        [tool(0), piece(0, "{}"), start(0, type="tool_use", id="other", name="g"), piece(1, "x")],
        [("f", "{}"), ("g", "")],
    ),
    "pieces of what is no call of ours": (
        [start(0, type="server_tool_use", id="s", name="web_search"), piece(0, '{"query":"x"}'), piece(7, "{}")],
        [],
    ),
    "an index that is none": ([tool("1"), tool(None), tool(True), piece("1", "{}")], []),
    "pieces that are no text": ([tool(0), piece(0, 7), piece(0, None), piece(0, "{}")], [("f", "{}")]),
}


@pytest.mark.parametrize("kind", CALLS)
def test_tool_calls_come(kind: str) -> None:
    events, expected = CALLS[kind]
    assert [(draft.name, draft.arguments) for draft in assemble(*events)[0].tool_calls] == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("something_new", "something_new"),
        ("x" * 1000, "x" * 256),
    ],
)
def test_why_it_ended_is_said_in_the_words_of_the_house(reason: str, expected: str) -> None:
    assert assemble(text("x"), end(reason))[0].finish_reason == expected


def test_the_prompts_tokens_are_counted_with_what_the_cache_gave_and_took() -> None:
    head = {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1}
    message = {"type": "message_start", "message": {"model": "claude", "usage": head}}
    answer, _ = assemble(message, text("x"), end("end_turn", output_tokens=9, cache_read_input_tokens=101))
    assert answer.usage == Usage(124, 9, cached_tokens=101)
    assert answer.model == "claude"


@pytest.mark.parametrize("count", [-1, "seven", 1.5, True, None, 10**13, [], {}])
def test_a_count_that_is_none_counts_nothing(count: Any) -> None:
    assert assemble(text("x"), end("end_turn", output_tokens=count))[0].usage == Usage(0, 0)


HOSTILE: list[dict[str, Any]] = [
    {},
    {"type": None},
    {"type": ["message_start"]},
    {"type": "ping"},
    {"type": "something_new", "delta": {"text": "no"}},
    {"type": "message_start"},
    {"type": "message_start", "message": []},
    {"type": "message_start", "message": {"model": 7, "usage": "many"}},
    {"type": "content_block_start"},
    {"type": "content_block_start", "index": 0, "content_block": "text"},
    start(-1, type="text", text=None),
    start(0, type="image", source={}),
    {"type": "content_block_delta", "index": 0, "delta": None},
    delta(10**30, "text_delta", text={"a": 1}),
    delta(0, "citations_delta", citation={}),
    delta(0, "something_new", text="no"),
    {"type": "content_block_stop", "index": "x"},
    {"type": "message_delta", "delta": "x", "usage": []},
    end(None),
    end(7),
    {"type": "message", "content": "text", "usage": 3},
]


def test_what_makes_no_sense_is_left_out() -> None:
    for event in HOSTILE:
        answer, seen = assemble(event, text("said"))
        assert (answer.text, answer.thinking, answer.tool_calls, answer.usage) == ("said", "", (), Usage(0, 0))
        assert seen == [("content", "said")]
        assert (answer.finish_reason, answer.model) == ("stop", "asked")


def test_blocks_have_an_end() -> None:
    with pytest.raises(ValueError, match="more than 10000 blocks"):
        assemble(*[start(0, type="text", text="")] * 10_001)


def test_an_answer_of_tool_calls_says_so_by_itself() -> None:
    answer, _ = assemble(tool(0))
    assert (answer.finish_reason, answer.tool_calls) == ("tool_calls", (ToolCallDraft("f", ""),))
