"""Servers that refuse requests: asked again in another form, which is remembered and told, over a socket."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.shared.models import learned_form
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ModelRefused, ModelTooLong, ModelUnavailable
from tests.integration.models.conftest import USER, Bench, Start
from tests.support.models.protocols import OPENAI, ScriptedProtocol
from tests.support.models.refusals import told
from tests.support.models.replies import Reply, fail, raw, refuse, say

PARAMETERS = {
    "logprobs": True,
    "max_tokens": 9000,
    "parallel_tool_calls": False,
    "reasoning_effort": "high",
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "seed": 1,
    "service_tier": "x",
    "stop": ["x"],
    "temperature": 0.2,
    "top_p": 1,
    "user": "u",
}


def tool(name: str, schema: Any = None, description: str = "does it") -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": schema or {"type": "object", "properties": {}}}
    return {"type": "function", "function": function}


TOOLS = to_json([tool("alpha"), tool("run")])
UNUSUAL = {
    "type": "object",
    "$defs": {"U": {"type": "string", "enum": ["C"]}},
    "properties": {
        "a": {"type": "array", "prefixItems": [{"type": "string"}]},
        "n": {"type": "integer", "exclusiveMinimum": 0},
        "u": {"$ref": "#/$defs/U"},
    },
    "additionalProperties": False,
}
RICH_TOOLS = to_json([tool("alpha"), tool("run", UNUSUAL, "x" * 3000)])


def has(change: str, body: dict[str, Any]) -> bool:
    """Whether a request is still as it was before this change."""
    kind, _, rest = change.partition(" ")
    if kind == "json_object":
        return bool(body.get("response_format", {}).get("type") == "json_schema")
    name, _, value = rest.partition(" ")
    if kind == "lower":
        return bool(body.get(name) != int(value))
    return name in body


@pytest.fixture
def protocol() -> ScriptedProtocol:
    """What is learned is the same in each protocol; how it is sent is another test's."""
    return OPENAI


@pytest.fixture
def plain() -> bool:
    """Nor does it matter how the bytes get there."""
    return True


@pytest.fixture
def nth() -> str:
    """Nor which request it is."""
    return "first"


def refusing(bench: Bench, refusal: Reply, when: Callable[[dict[str, Any]], bool]) -> None:
    """Let the server refuse what it does not take, and answer everything else."""
    bench.server.script = lambda body: refusal if when(body) else say("there")


@pytest.mark.parametrize("row", told("fields"))
async def test_a_request_is_sent_again_without_the_field_that_is_refused(start: Start, row: Any) -> None:
    """Promise: a refused field ends no task; what was learned holds for the next request."""
    bench = await start(parameters=PARAMETERS)
    refusing(bench, refuse(row["status"], row["body"]), lambda body: has(row["change"], body))
    for _ in range(2):
        assert (await bench.ask(tools=TOOLS, may_call=False)).text == "there"
    first, *others = bench.server.chats
    assert [has(row["change"], body) for body in (first, *others)] == [True, False, False]
    assert len(first) - len(others[0]) <= 2, "and nothing else is left out"


async def test_a_strangers_request_is_sent_as_was_learned_and_teaches_nothing(start: Start) -> None:
    """Promise: what one caller's own parameters have refused changes nobody else's requests."""
    bench = await start(parameters={"temperature": 0.2})
    body = {"error": {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}}
    refusing(bench, refuse(400, body), lambda request: request.get("temperature") == 1.5)
    own: dict[str, Any] = {"temperature": 1.5, "teaches": False}
    for _ in range(2):
        assert (await bench.ask(**own)).text == "there"
    assert (await bench.ask()).text == "there"
    assert [request.get("temperature") for request in bench.server.chats] == [1.5, None, 1.5, None, 0.2]
    assert bench.client.learned == ()
    refusing(bench, refuse(400, body), lambda request: "temperature" in request)
    await bench.ask()
    before = len(bench.server.chats)
    await bench.ask(**own)
    assert ["temperature" in request for request in bench.server.chats[before:]] == [False]


EVERYTHING = PARAMETERS | {
    "chat_template_kwargs": {"x": 1},
    "extra_body": {"a": 1},
    "frequency_penalty": 0.1,
    "logit_bias": {"1": 1},
    "metadata": {"a": "b"},
    "min_p": 0.1,
    "n": 1,
    "presence_penalty": 0.1,
    "prompt_cache_key": "k",
    "repetition_penalty": 1.1,
    "safety_identifier": "z",
    "store": True,
    "top_k": 5,
    "top_logprobs": 3,
    "verbosity": "low",
    "web_search_options": {},
}
SYSTEM = b'{"role":"system","content":"be nice"}'
CALLED = (
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function",'
    b'"function":{"name":"alpha","arguments":"{}"}}]}'
)
RESULT = b'{"role":"tool","tool_call_id":"call_a","content":"r"}'


def refuses(what: str, body: dict[str, Any]) -> bool:
    """Whether a server refuses a request: `has FIELD`, `says TEXT`, `above TOKENS`."""
    kind, _, rest = what.partition(" ")
    if kind == "has":
        return rest in body
    return rest in json.dumps(body) if kind == "says" else body.get("max_tokens", 0) > int(rest)


@pytest.mark.parametrize("row", told("learned"))
async def test_what_servers_say_teaches_this_and_nothing_else(start: Start, row: Any) -> None:
    """Promise: a refusal in the words of each of these servers changes what it is about, and leaves the rest alone."""
    bench = await start(parameters=EVERYTHING)
    refusing(bench, refuse(row["status"], row["body"]), lambda body: refuses(row["refuses"], body))
    messages = (SYSTEM, USER, CALLED, RESULT) if row.get("conversation") else (SYSTEM, USER)
    for _ in range(2):
        assert (await bench.ask(*messages, tools=RICH_TOOLS, may_call=False)).text == "there"
    assert isinstance(bench.client, OpenAIChat)
    assert [line.partition(": it says")[0] for line in bench.client.learned] == row["learned"]
    assert [refuses(row["refuses"], body) for body in bench.server.chats[-2:]] == [False, False]


@pytest.mark.parametrize("row", told("no_tools"))
async def test_a_model_without_tools_answers_without_them(start: Start, row: Any) -> None:
    """Promise: "does not support tools", in each server's words, is asked again without tools."""
    bench = await start()
    refusing(bench, refuse(row["status"], row["body"]), lambda body: "tools" in body)
    assert (await bench.ask(tools=TOOLS)).text == "there"
    assert ["tools" in body for body in bench.server.chats] == [True, False]


@pytest.mark.parametrize("row", told("too_long"))
async def test_a_prompt_that_is_too_long_is_told_so_and_not_sent_again(start: Start, row: Any) -> None:
    """Promise: too long is told as too long, at once."""
    bench = await start(refuse(row["status"], row["body"]))
    with pytest.raises(ModelTooLong, match="too long for this model") as failed:
        await bench.ask()
    assert failed.value.limit == row["limit"]
    assert len(bench.server.chats) == 1


def lasts(row: Any) -> bool:
    """Whether a delay is still to be waited for when the test is run: some end at a time of day."""
    return bool(row["seconds"] > 1.0) and not any(date in str(row) for date in ("2023-", "17000015"))


@pytest.mark.parametrize("row", [each for each in told("delays") if lasts(each.values[0])])
async def test_a_stated_delay_is_left_to_the_caller_to_wait_for(start: Start, row: Any) -> None:
    """Promise: within a delay that a server states it is asked once."""
    bench = await start(refuse(429, row["body"], row["headers"]))
    with pytest.raises(ModelUnavailable) as failed:
        await bench.ask()
    assert failed.value.retry_after is not None
    assert len(bench.server.chats) == 1


@pytest.mark.parametrize("row", told("used_up"))
async def test_a_used_up_quota_is_asked_for_once(start: Start, row: Any) -> None:
    """Promise: a quota that is used up is final at once."""
    bench = await start(refuse(429, row["body"]))
    with pytest.raises(ModelRefused):
        await bench.ask()
    assert len(bench.server.chats) == 1


WEATHER = {
    "type": "object",
    "$defs": {"Unit": {"enum": ["C", "F"], "type": "string"}},
    "properties": {
        "unit": {"$ref": "#/$defs/Unit"},
        "days": {"type": "integer", "exclusiveMinimum": 0},
        "at": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
    },
    "required": ["unit"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("prefixItems", "Invalid schema for function 'weather': 'prefixItems' is not permitted"),
        ("exclusiveMinimum", "Invalid JSON payload received. Unknown name \"exclusiveMinimum\" at 'tools[0]."
                             "function_declarations[1].parameters.properties[1].value': Cannot find field."),
        ("$ref", "tools.1.custom.input_schema: JSON schema is invalid: $ref is not supported"),
        ("additionalProperties", "additionalProperties in the JSON schema is not supported"),
        ("exclusiveMinimum", "Invalid request"),
    ],
)  # fmt: skip
async def test_a_schema_that_is_refused_is_inlined_and_loosened(start: Start, keyword: str, message: str) -> None:
    """Promise: one tool's schema takes down no request: it is said in what the server takes, and means the same."""
    bench = await start()
    if message == "Invalid request":
        message = "Invalid tool schema"
    refusing(bench, fail(400, message=message), lambda body: keyword in json.dumps(body))
    assert (await bench.ask(tools=to_json([tool("alpha"), tool("weather", WEATHER)]))).text == "there"
    sent = [each["function"] for each in bench.server.chats[-1]["tools"]]
    assert [each["name"] for each in sent] == ["alpha", "weather"]
    assert sent[1]["parameters"]["properties"]["unit"] == {"type": "string", "enum": ["C", "F"]}
    assert sent[1]["parameters"]["required"] == ["unit"]


async def test_a_description_that_is_too_long_is_cut_to_what_the_server_takes(start: Start) -> None:
    """Promise: a description of over 1,024 characters ends no task at a server that takes no longer one."""
    bench = await start()
    words = (
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got "
        "a string with length 3000 instead."
    )
    refusing(
        bench,
        refuse(400, {"error": {"message": words, "param": "tools[0].function.description"}}),
        lambda body: len(body["tools"][0]["function"]["description"]) > 1024,
    )
    assert (await bench.ask(tools=to_json([tool("alpha", description="x" * 3000)]))).text == "there"
    assert len(bench.server.chats[-1]["tools"][0]["function"]["description"]) == 1024


@pytest.mark.parametrize(
    "message", ["Invalid schema for function 'run': no", "tools.1.custom.name: not allowed", "tool 'run' is malformed"]
)
async def test_a_tool_that_no_form_helps_is_left_out_alone(start: Start, message: str) -> None:
    """Promise: one tool that is refused takes down no other."""
    bench = await start()
    refusing(
        bench,
        fail(400, message=message),
        lambda body: any(t["function"]["name"] == "run" for t in body.get("tools", ())),
    )
    assert (await bench.ask(tools=TOOLS)).text == "there"
    assert [each["function"]["name"] for each in bench.server.chats[-1]["tools"]] == ["alpha"]


async def test_names_of_fields_that_follow_one_another_are_all_learned(start: Start) -> None:
    """Promise: a server that refuses several things is asked in a form that it takes, and then at once."""
    bench = await start(parameters=PARAMETERS)
    refused = ("stream_options", "seed", "logprobs", "user", "parallel_tool_calls", "temperature", "response_format")

    def script(body: dict[str, Any]) -> Reply:
        name = next((each for each in refused if each in body), None)
        return say("there") if name is None else refuse(422, {"detail": [{"loc": ["body", name], "msg": "no"}]})

    bench.server.script = script
    assert (await bench.ask(tools=TOOLS)).text == "there"
    asked = len(bench.server.chats)
    assert asked <= len(refused) + 2
    assert (await bench.ask(tools=TOOLS)).text == "there"
    assert len(bench.server.chats) == asked + 1


async def test_what_is_learned_is_said_once_in_the_log_and_told(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: an operator can see what is sent otherwise than configured, and why."""
    bench = await start(parameters={"seed": 1}, key="sk-secret-key")
    message = "Unknown parameter: 'seed' for sk-secret-key"
    refusing(bench, fail(400, message=message), lambda body: "seed" in body)
    with caplog.at_level(logging.WARNING):
        await asyncio.gather(*(bench.ask() for _ in range(3)))
    said = [record.getMessage() for record in caplog.records if "seed" in record.getMessage()]
    assert len(said) == 1
    assert "seed is not sent to it" in said[0]
    assert "Unknown parameter: 'seed' for ***" in said[0]
    assert isinstance(bench.client, OpenAIChat)
    [learned] = bench.client.learned
    assert learned.startswith("seed is not sent to it")
    assert "sk-secret-key" not in learned


async def test_what_is_learned_is_forgotten_after_a_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a server that was mended gets the whole request again."""
    monkeypatch.setattr(learned_form, "LEARNED_S", 0.0)
    bench = await start()
    refusing(bench, fail(400, message="Unknown parameter: 'stream_options'"), lambda _: len(bench.server.chats) == 1)
    for _ in range(2):
        assert (await bench.ask()).text == "there"
    assert ["stream_options" in body for body in bench.server.chats][-1]


async def test_a_refusal_that_nothing_helps_is_final_and_has_taught_nothing(start: Start) -> None:
    """Promise: a server that refuses each form is asked a bounded number of times, and no form is kept."""
    bench = await start(refuse(400, {"error": {"message": "seed, temperature and tools[0] are not supported"}}),
                        parameters=PARAMETERS)  # fmt: skip
    with pytest.raises(ModelRefused, match="400: seed, temperature"):
        await bench.ask(tools=TOOLS)
    assert 2 < len(bench.server.chats) <= learned_form.MAX_REPEATS + 1
    assert isinstance(bench.client, OpenAIChat)
    assert bench.client.learned == ()


async def test_a_refusal_within_a_stream_teaches_too(start: Start) -> None:
    """Promise: a server that answers 200 and refuses in its first event is understood."""
    bench = await start()
    refusal = raw(b'data: {"error":{"code":400,"message":"m does not support tools"}}\n\n')
    refusing(bench, refusal, lambda body: "tools" in body)
    assert (await bench.ask(tools=TOOLS)).text == "there"


async def test_a_server_that_does_not_stream_for_tools_is_asked_for_a_document(start: Start) -> None:
    """Promise: an answer that cannot be streamed is had whole."""
    bench = await start()
    refusing(
        bench, fail(400, message="This model doesn't support tool use in streaming mode."), lambda b: "stream" in b
    )
    assert (await bench.ask(tools=TOOLS)).text == "there"
    assert [("tools" in body, "stream_options" in body) for body in bench.server.chats] == [(True, True), (True, False)]


async def test_an_answer_is_reserved_less_for_a_prompt_that_fits_beside_it_once(start: Start) -> None:
    """Promise: a prompt that fits is answered, and the next answer may be long again."""
    bench = await start(parameters={"max_tokens": 4000})
    words = (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, "
        "4000 in the completion). Please reduce the length of the messages or completion."
    )
    refusing(bench, fail(400, message=words), lambda _: len(bench.server.chats) == 1)
    assert (await bench.ask()).text == "there"
    await bench.ask()
    assert [body["max_tokens"] for body in bench.server.chats] == [4000, 3080, 4000]


async def test_a_refusal_of_a_million_characters_is_read_in_part(start: Start) -> None:
    """Promise: the body of an error is bounded."""
    bench = await start(refuse(400, {"error": {"message": "seed " * 400_000}}), parameters={"seed": 1})
    with pytest.raises(ModelRefused) as failed:
        await bench.ask()
    assert len(str(failed.value)) < 800
