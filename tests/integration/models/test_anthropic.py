"""What is particular to the Anthropic protocol: its requests, its parameters, its errors within a stream."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.models.anthropic.chat import AnthropicChat
from pentad.shared.models.ports import ChatRequest, ModelCutOff, ModelFailed, ModelRefused, ModelUnavailable
from tests.integration.models.conftest import USER, Start
from tests.support.models.protocols import ANTHROPIC, ScriptedProtocol
from tests.support.models.replies import Reply, call, fail, raw, say

SYSTEM = '{"role":"system","content":"sei nett: ä"}'.encode()
CALLED = b'{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}'
RESULT = b'{"role":"tool","tool_call_id":"a","content":"r"}'
MARK = {"type": "ephemeral"}


@pytest.fixture
def protocol() -> ScriptedProtocol:
    return ANTHROPIC


async def test_the_request_is_in_the_form_of_the_protocol(start: Start) -> None:
    bench = await start()
    tools = b'[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object"}}}]'
    await bench.ask(SYSTEM, USER, tools=tools)
    request = bench.server.seen.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == "Bearer sk-secret-key"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert request.body == {
        "model": "m",
        "stream": True,
        "max_tokens": 16384,
        "cache_control": MARK,
        "system": [{"type": "text", "text": "sei nett: ä", "cache_control": MARK}],
        "tools": [{"name": "f", "description": "does", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


async def test_parameters_go_into_each_request(start: Start) -> None:
    given = {"max_tokens": 99, "temperature": 0.5, "cache_control": None, "stop_sequences": ["%s", "é"]}
    bench = await start(parameters=given)
    await bench.ask(SYSTEM, USER)
    request = bench.server.seen.requests[0]
    assert {name: request.body[name] for name in ("max_tokens", "temperature", "stop_sequences")} == {
        "max_tokens": 99,
        "temperature": 0.5,
        "stop_sequences": ["%s", "é"],
    }
    assert "cache_control" not in json.dumps(request.body)
    assert request.headers["anthropic-version"] == "2023-06-01", "later versions refuse a temperature"


async def test_a_conversation_with_calls_is_taken_without_tools(start: Start) -> None:
    """Promise: a step that offers no tools may follow steps that called some; it may call none then."""
    bench = await start()
    assert (await bench.ask(SYSTEM, USER, CALLED, RESULT, USER)).text == "ok"
    (chat,) = bench.server.chats
    assert chat["tools"] == [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    assert chat["tool_choice"] == {"type": "none"}


async def test_a_conversation_without_calls_defines_no_tools(start: Start) -> None:
    bench = await start()
    await bench.ask(SYSTEM, USER)
    (chat,) = bench.server.chats
    assert chat.keys().isdisjoint(("tools", "tool_choice"))


async def test_a_prompt_that_ends_with_an_answer_goes_on_with_a_message(start: Start) -> None:
    """Promise: no model is asked to continue an answer of its own, which newer ones refuse."""
    bench = await start()
    assert (await bench.ask(USER, b'{"role":"assistant","content":"so far"}')).text == "ok"
    (chat,) = bench.server.chats
    assert [message["role"] for message in chat["messages"]] == ["user", "assistant", "user"]


async def test_thinking_by_budget_rests_while_an_answer_is_under_way(start: Start) -> None:
    budget = {"type": "enabled", "budget_tokens": 2048}
    bench = await start(parameters={"thinking": budget})
    await bench.ask(USER)
    await bench.ask(USER, CALLED, RESULT)
    await bench.ask(USER, CALLED, RESULT, b'{"role":"assistant","content":"done"}', USER)
    assert [chat.get("thinking") for chat in bench.server.chats] == [budget, None, budget]


async def test_thinking_by_budget_goes_on_where_its_signed_thoughts_are_known(start: Start) -> None:
    budget = {"type": "enabled", "budget_tokens": 2048}
    bench = await start(call(("f", {})), parameters={"thinking": budget})
    signed = b',"thinking":{"of":"anthropic/m","fields":{"blocks":[%s]}}}' % (
        b'{"type":"thinking","thinking":"hm","signature":"c2ln"}'
    )
    await bench.ask(USER, CALLED[:-1] + signed, RESULT)
    (chat,) = bench.server.chats
    assert chat["thinking"] == budget
    assert [block["type"] for block in chat["messages"][1]["content"]] == ["thinking", "tool_use"]


async def test_adaptive_thinking_goes_on_without_its_thoughts(start: Start) -> None:
    bench = await start(say("ok", thinking="hmm"), parameters={"thinking": {"type": "adaptive"}})
    assert (await bench.ask(USER, CALLED, RESULT)).thinking == "hmm"
    assert bench.server.chats[0]["thinking"] == {"type": "adaptive"}
    assert "hmm" not in json.dumps(bench.server.chats)


async def test_a_transcript_that_the_server_refuses_is_refused(start: Start) -> None:
    bench = await start()
    with pytest.raises(ModelRefused, match="need their `tool_result` blocks"):
        await bench.ask(USER, CALLED, USER)


async def test_a_message_that_is_none_is_refused_before_it_is_sent(start: Start) -> None:
    bench = await start()
    with pytest.raises(ModelRefused, match="the conversation cannot be sent"):
        await bench.ask(USER, b"[]")
    assert bench.server.chats == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ModelUnavailable),
        ("rate_limit_error", ModelUnavailable),
        ("api_error", ModelUnavailable),
        ("timeout_error", ModelUnavailable),
        ("invalid_request_error", ModelRefused),
        ("authentication_error", ModelRefused),
        ("something_new", ModelCutOff),
    ],
)
async def test_an_error_event_before_any_text_is_what_its_type_says(
    start: Start, kind: str, expected: type[ModelFailed]
) -> None:
    begun = ANTHROPIC.events(say("x"))[0]
    bench = await start(raw(begun, _error(kind)))
    with pytest.raises(expected, match="it says sk-no, and \\*\\*\\*"):
        await bench.ask()
    assert len(bench.server.chats) == 1


async def test_an_error_event_after_text_is_a_cut_off(start: Start) -> None:
    begun, said, *_ = ANTHROPIC.events(say("half an answer", chunks=2))
    bench = await start(raw(begun, said, _error("overloaded_error")))
    with pytest.raises(ModelCutOff, match="stopped with an error"):
        await bench.ask()


async def test_an_overloaded_server_is_asked_again_and_then_later(start: Start) -> None:
    bench = await start(fail(529, message="Overloaded"), say("back"))
    assert (await bench.ask()).text == "back"
    bench.server.script = lambda _: fail(529, message="Overloaded", retry_after=20)
    with pytest.raises(ModelUnavailable, match="529: Overloaded") as failed:
        await bench.ask()
    assert failed.value.retry_after == 20


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_the_address_may_name_the_version_or_not(start: Start, suffix: str) -> None:
    bench = await start()
    root = bench.server.base_url.removesuffix("/v1")
    client = AnthropicChat(root + suffix, "key", "m")
    await client.stream(ChatRequest([USER], None, 10.0), lambda _kind, _text: None)
    await client.aclose()
    assert bench.server.seen.requests[-1].path == "/v1/messages"
    assert (client.name, client.place) == ("m", root)


async def test_the_environment_chooses_neither_key_nor_address(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.setenv(name, "sk-other")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    bench = await start(key=None)
    await bench.ask()
    headers = bench.server.seen.requests[0].headers
    assert headers["authorization"] == "Bearer none"
    assert "sk-other" not in str(headers)


@pytest.mark.parametrize("name", ["messages", "model", "stream", "system", "tool_choice", "tools"])
def test_a_parameter_that_each_request_has_cannot_be_set(name: str) -> None:
    with pytest.raises(SettingsError, match=f"may not set {name}"):
        AnthropicChat(None, None, "m", parameters={name: "x"})


@pytest.mark.parametrize("value", [object(), {"a": {1, object()}}, "\ud800"])
def test_a_parameter_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="must be JSON"):
        AnthropicChat(None, None, "m", parameters={"metadata": value})


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(SettingsError, match=r"pip install 'pentad\[anthropic\]'"):
        AnthropicChat(None, None, "m")


async def test_it_is_made_without_its_client_which_comes_with_warming() -> None:
    made = (
        "import sys; from pentad.shared.models.anthropic.chat import AnthropicChat; "
        "m = AnthropicChat(None, None, 'm'); "
        "assert not {'anthropic', 'openai', 'httpx2'} & sys.modules.keys(); m.warm(); "
        "assert 'anthropic' in sys.modules and 'openai' not in sys.modules"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", made)
    assert await asyncio.wait_for(process.wait(), 60) == 0


def _error(kind: str) -> bytes:
    error = {"type": "error", "error": {"type": kind, "message": "it says sk-no, and sk-secret-key"}}
    return b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"


async def test_an_instructions_temperature_and_limit_go_before_the_models_own(start: Start) -> None:
    bench = await start(parameters={"max_tokens": 99})
    await bench.ask(USER)
    await bench.ask(USER, temperature=0.0, max_tokens=7)
    plain, asked = bench.server.seen.requests
    assert ("temperature" in plain.body, plain.body["max_tokens"]) == (False, 99)
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.0, 7)
    assert asked.headers["anthropic-version"] == "2023-06-01", "later versions refuse a temperature"
    assert plain.headers["anthropic-version"] != "2023-06-01"


async def test_a_server_that_takes_no_tools_is_told_of_none_for_the_sake_of_calls(start: Start) -> None:
    """Promise: what a refusal has taught outlasts a conversation in which another model has called tools."""

    def script(body: dict[str, Any]) -> Reply:
        return fail(400, message="This model does not support tools") if "tools" in body else say("ok")

    bench = await start(script)
    tools = b'[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'
    await bench.ask(USER, tools=tools)
    before = len(bench.server.chats)
    with suppress(ModelFailed):
        await bench.ask(USER, CALLED, RESULT, USER)
    assert all("tools" not in chat for chat in bench.server.chats[before:])
