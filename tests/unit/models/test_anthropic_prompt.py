"""A conversation in OpenAI chat form becomes one that Anthropic's server takes, and says the same."""

import json
import random
from typing import Any

import pytest

from pentad.shared.models.anthropic.prompt import AnthropicPrompt, anthropic_prompt, anthropic_tools, bare_tools
from tests.support.models.anthropic_checks import request_fault

MODEL = "m"
SYSTEM = {"role": "system", "content": "Be kind."}
GOES_ON = {"type": "text", "text": "[The conversation goes on.]"}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(content: Any, *calls: tuple[str, str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
            for call_id, arguments in calls
        ]
    return message


def result(call_id: str, content: str = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(call_id: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": given}


def answered(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **more}


def convert(*messages: dict[str, Any]) -> AnthropicPrompt:
    return anthropic_prompt([json.dumps(message, ensure_ascii=False).encode() for message in messages], MODEL)


def turns(*messages: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Roles and blocks, once it is sure that the server would take them."""
    prompt = convert(*messages)
    converted = json.loads(b"[%s]" % prompt.messages)
    body = {"model": "m", "max_tokens": 1, "system": json.loads(b"[%s]" % prompt.system), "messages": converted}
    body["tools"] = json.loads(bare_tools(prompt.called))
    assert request_fault(body) == ""
    return [(message["role"], message["content"]) for message in converted]


TRANSCRIPTS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, list[dict[str, Any]]]]]] = {
    "a question": ([SYSTEM, user("hi")], [("user", [text("hi")])]),
    "parallel tools, then a message": (
        [user("do"), said("well", ("a", '{"x":1}'), ("b", "")), result("a"), result("b", "s"), user("and?")],
        [
            ("user", [text("do")]),
            ("assistant", [text("well"), use("a", {"x": 1}), use("b", {})]),
            ("user", [answered("a", content="r"), answered("b", content="s"), text("and?")]),
        ],
    ),
    "a message before the results": (
        [user("do"), said(None, ("a", "{}")), user("and?"), result("a")],
        [
            ("user", [text("do")]),
            ("assistant", [use("a", {})]),
            ("user", [answered("a", content="r"), text("and?")]),
        ],
    ),
    "several messages in a row": (
        [user("one"), user("two"), said("a"), said("b"), user("three")],
        [("user", [text("one"), text("two")]), ("assistant", [text("a"), text("b")]), ("user", [text("three")])],
    ),
    "an assistant that begins": (
        [SYSTEM, said("before"), user("hi")],
        [("user", [GOES_ON]), ("assistant", [text("before")]), ("user", [text("hi")])],
    ),
    "an assistant that spoke last": (
        [user("hi"), said("there")],
        [("user", [text("hi")]), ("assistant", [text("there")]), ("user", [GOES_ON])],
    ),
    "blank texts": (
        [user("hi"), said(""), user(" \n"), said("  ", ("a", "{}")), result("a", " ")],
        [("user", [text("hi")]), ("assistant", [use("a", {})]), ("user", [answered("a")])],
    ),
    "nothing but blank": ([SYSTEM, user("")], [("user", [GOES_ON])]),
    "nothing at all": ([], [("user", [GOES_ON])]),
    "a failed call": (
        [user("do"), said(None, ("a", "{}")), result("a", "error: no such file")],
        [
            ("user", [text("do")]),
            ("assistant", [use("a", {})]),
            ("user", [answered("a", content="error: no such file", is_error=True)]),
        ],
    ),
    "a system message in the middle": (
        [SYSTEM, user("hi"), {"role": "system", "content": "note"}, said("yes"), user("go")],
        [("user", [text("hi"), text("note")]), ("assistant", [text("yes")]), ("user", [text("go")])],
    ),
    "content in parts": ([user([{"type": "text", "text": "a"}, {"text": "b"}])], [("user", [text("ab")])]),
    "characters of all kinds": (
        [user('é 你好 😀 "\\\u0000\u2028'), said("", ("a", '{"é":"\\u0000😀"}')), result("a", "\u2029")],
        [
            ("user", [text('é 你好 😀 "\\\u0000\u2028')]),
            ("assistant", [use("a", {"é": "\u0000😀"})]),
            ("user", [answered("a")]),
        ],
    ),
}


@pytest.mark.parametrize("kind", TRANSCRIPTS)
def test_the_server_takes_and_understands(kind: str) -> None:
    messages, expected = TRANSCRIPTS[kind]
    assert turns(*messages) == expected


@pytest.mark.parametrize("arguments", ["{nope", "[1]", "7", "null", '"x"', '{"a":NaN}', "{" * 5000, '{"a":"\\ud800"}'])
def test_arguments_that_are_no_object_stay_readable(arguments: str) -> None:
    blocks = turns(user("do"), said(None, ("a", arguments)), result("a"))[1][1]
    assert blocks == [use("a", {"unreadable": arguments})]


@pytest.mark.parametrize("arguments", ["", " ", "{}"])
def test_arguments_that_are_empty_are_an_empty_object(arguments: str) -> None:
    assert turns(user("do"), said(None, ("a", arguments)), result("a"))[1][1] == [use("a", {})]


def test_arguments_are_sent_as_they_were_written() -> None:
    arguments = '{"b": 1e2, "a": 123456789012345678901234567890, "b": "twice"}'
    assert arguments.encode() in convert(user("do"), said(None, ("a", arguments)), result("a")).messages


def test_system_messages_at_the_beginning_are_the_system() -> None:
    prompt = convert(SYSTEM, {"role": "developer", "content": "no"}, user("hi"))
    assert json.loads(prompt.system) == text("Be kind.")
    assert json.loads(b"[%s]" % convert(SYSTEM, SYSTEM, user("hi")).system) == [text("Be kind.")] * 2
    assert convert(user("hi")).system == b""


def test_whether_an_answer_is_under_way() -> None:
    begun = [user("do"), said(None, ("a", "{}")), result("a")]
    assert convert(*begun).unsigned
    assert convert(*begun, user("and?")).unsigned
    assert not convert(*begun, said("done"), user("next")).unsigned
    assert not convert(user("do")).unsigned


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"7", b'{"role":'])
def test_what_is_no_message_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        anthropic_prompt([raw], MODEL)


@pytest.mark.parametrize("message", [{}, {"role": 7, "content": {}}, {"role": "tool"}, {"role": "x", "content": "y"}])
def test_an_odd_message_breaks_nothing(message: dict[str, Any]) -> None:
    assert convert(user("hi"), message).messages.startswith(b'{"role":"user"')


@pytest.mark.parametrize("calls", [[None], [{"function": "f"}], "x", {}])
def test_calls_that_are_damaged_are_the_servers_to_judge(calls: Any) -> None:
    prompt = convert(user("hi"), {"role": "assistant", "content": "a", "tool_calls": calls}, user("b"))
    assert json.loads(b"[%s]" % prompt.messages)[1]["content"][0] == text("a")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_well_formed_transcript_there_is_the_server_takes_it(seed: int) -> None:
    chance = random.Random(seed)
    messages: list[dict[str, Any]] = [SYSTEM]
    while len(messages) < 1000 if seed == 0 else chance.random() < 0.95:
        kind = chance.randrange(4)
        ids = [f"call-{len(messages)}-{n}" for n in range(chance.randrange(1, 5))]
        if kind == 0:
            calls = [(call_id, '{"n": 1}') for call_id in ids]
            messages += [said(chance.choice([None, "", "well"]), *calls), *map(result, ids)]
        elif kind == 1:
            messages.append(said(chance.choice(["a", "é\n"])))
        else:
            messages.append(user(chance.choice(["u", " ", "你好"])))
    converted = turns(*messages)
    spoken = [block["text"] for _, blocks in converted for block in blocks if block["type"] == "text"]
    meant = [message["content"] for message in messages[1:] if message["role"] != "tool"]
    assert [line for line in spoken if line != GOES_ON["text"]] == [line for line in meant if line and line.strip()]
    asked = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert [b["id"] for _, blocks in converted for b in blocks if b["type"] == "tool_use"] == asked


def test_tools_have_a_schema_of_an_object() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    listed = [
        {"type": "function", "function": {"name": "f", "description": "does", "parameters": schema}},
        {"type": "function", "function": {"name": "g", "description": ""}},
        {"type": "function", "function": {"name": "h", "parameters": {"properties": {}}}},
    ]
    empty = {"type": "object", "properties": {}}
    assert json.loads(anthropic_tools(json.dumps(listed).encode())) == [
        {"name": "f", "description": "does", "input_schema": schema},
        {"name": "g", "input_schema": empty},
        {"name": "h", "input_schema": empty},
    ]


def test_images_become_blocks_of_the_users_message_behind_the_results() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://elsewhere.example/x.png"}},
        {"type": "audio"},
    ]
    asked: list[dict[str, Any]] = [
        said(None, ("1", "{}")),
        {"role": "tool", "tool_call_id": "1", "content": "drawn"},
        user(parts),
    ]
    prompt = anthropic_prompt([json.dumps(message).encode() for message in asked], "m")
    last = json.loads(b"[%s]" % prompt.messages)[-1]
    assert [block["type"] for block in last["content"]] == ["tool_result", "text", "image"]
    assert last["content"][2]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}
