"""What Anthropic's servers, and those that speak its protocol, refuse by its own fields and words: learned from too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.shared.models.anthropic.chat import AnthropicChat
from tests.integration.models.conftest import USER, Bench, Start
from tests.integration.models.test_learning import tool
from tests.support.models.protocols import ANTHROPIC, ScriptedProtocol
from tests.support.models.replies import refuse, say

SYSTEM = b'{"role":"system","content":"be nice"}'
RESULT = b'{"role":"tool","tool_call_id":"a","content":"r"}'
SIGNED = (
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"alpha","arguments":"{}"}}],'
    b'"thinking":{"of":"anthropic/m","fields":{"blocks":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]}}}'
)
SCHEMA = {
    "type": "object",
    "$defs": {"Unit": {"enum": ["C", "F"], "type": "string"}},
    "properties": {
        "unit": {"$ref": "#/$defs/Unit"},
        "days": {"type": "integer", "exclusiveMinimum": 0},
        "at": {"type": "array", "prefixItems": [{"type": "number"}]},
    },
}
TOOLS = to_json([tool("alpha"), tool("run", SCHEMA, "x" * 3000)])
BUDGET = {"type": "enabled", "budget_tokens": 4096}
Body = Mapping[str, Any]
Refused = Callable[[Body], bool]


@pytest.fixture
def protocol() -> ScriptedProtocol:
    return ANTHROPIC


@pytest.fixture
def plain() -> bool:
    """How the bytes get there is another test's."""
    return True


@pytest.fixture
def nth() -> str:
    """So is which request it is."""
    return "first"


def has(name: str) -> Refused:
    return lambda body: name in body


def says(words: str) -> Refused:
    return lambda body: words in json.dumps(body)


def more_than(tokens: int) -> Refused:
    return lambda body: bool(body["max_tokens"] > tokens)


def offers(name: str) -> Refused:
    return lambda body: any(each["name"] == name for each in body.get("tools", ()))


def lists(name: str) -> Refused:
    return lambda body: isinstance(body.get(name), list)


def both(one: str, other: str) -> Refused:
    return lambda body: one in body and other in body


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


async def learned(bench: Bench, body: Any, refused: Refused, *messages: bytes, status: int = 400, **more: Any) -> str:
    """What a refusal teaches: the request is sent once more, and the next in the form that is taken."""
    bench.server.script = lambda sent: refuse(status, body) if refused(sent) else say("there")
    for _ in range(2):
        assert (await bench.ask(*(messages or (SYSTEM, USER)), **{"tools": TOOLS, **more})).text == "there"
    assert [refused(sent) for sent in bench.server.chats] == [True, False, False]
    assert isinstance(bench.client, AnthropicChat)
    return "; ".join(line.partition(": it says")[0] for line in bench.client.learned)


FIELDS: list[tuple[str, Any, Refused, dict[str, Any], str]] = [
    ("Anthropic", "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for m",
     more_than(8192), {"max_tokens": 32768}, "max_tokens is lowered to 8192"),
    ("Bedrock", {"message": "The maximum tokens you requested exceeds the model limit of 8192. Try again with a "
                            "maximum tokens value that is lower than 8192."},
     more_than(8192), {"max_tokens": 32768}, "max_tokens is lowered to 8192"),
    ("Anthropic", "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
                  "https://docs.example/en/docs/extended-thinking#max-tokens-and-context-window-size",
     has("thinking"), {"thinking": BUDGET, "max_tokens": 2000}, "thinking is not sent to it"),
    ("Anthropic", "'m' does not support thinking.", has("thinking"), {"thinking": BUDGET},
     "thinking is not sent to it"),
    ("Anthropic", "adaptive thinking is not supported on this model", has("thinking"),
     {"thinking": {"type": "adaptive"}}, "thinking is not sent to it"),
    ("Anthropic", '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
                  '"output_config.effort" to control thinking behavior.',
     has("thinking"), {"thinking": BUDGET}, "thinking is not sent to it"),
    ("Anthropic", "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
     has("thinking"), {"thinking": BUDGET}, "thinking is not sent to it"),
    ("Anthropic", "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
     both("temperature", "thinking"), {"temperature": 0.5, "thinking": BUDGET}, "temperature is not sent to it"),
    ("Anthropic", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
     has("top_p"), {"top_p": 0.5, "thinking": BUDGET}, "top_p is not sent to it"),
    ("Anthropic", "`top_k` must be unset when thinking is enabled.",
     has("top_k"), {"top_k": 5, "thinking": BUDGET}, "top_k is not sent to it"),
    ("Anthropic", "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
     both("temperature", "top_p"), {"temperature": 0.5, "top_p": 0.5}, "temperature is not sent to it"),
    ("Anthropic", "`temperature` is deprecated for this model.",
     has("temperature"), {"temperature": 0.5}, "temperature is not sent to it"),
    ("Anthropic", "This model does not support the effort parameter.",
     has("output_config"), {"output_config": {"effort": "high"}}, "output_config is not sent to it"),
    ("Anthropic", "stop_sequences: each stop sequence must contain non-whitespace",
     has("stop_sequences"), {"stop_sequences": [" "]}, "stop_sequences is not sent to it"),
    ("Anthropic", "metadata.user_id: user_id appears to contain an email address",
     has("metadata"), {"metadata": {"user_id": "a@b.example"}}, "metadata is not sent to it"),
    ("a proxy", "cache_control: Extra inputs are not permitted", says("cache_control"), {},
     "cache_control is not sent to it"),
    ("Bedrock", {"message": "system.0.cache_control: Extra inputs are not permitted"}, says("cache_control"), {},
     "cache_control is not sent to it"),
    ("a proxy", "system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted", says("1h"),
     {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, "cache_control is not sent to it"),
    ("LiteLLM", {"error": {"message": "litellm.BadRequestError: VertexAIException - cache_control is not supported"}},
     says("cache_control"), {}, "cache_control is not sent to it"),
    ("a proxy", "This model does not support prompt caching", says("cache_control"), {},
     "cache_control is not sent to it"),
    ("a proxy", "system: Input should be a valid string", lists("system"), {}, "texts are sent to it as they are"),
    ("FastAPI", {"detail": [{"loc": ["body", "system"], "msg": "Input should be a valid string"}]},
     lists("system"), {}, "texts are sent to it as they are"),
    ("Go", {"error": "json: cannot unmarshal array into Go struct field MessagesRequest.system of type string"},
     lists("system"), {}, "texts are sent to it as they are"),
    ("serde", "Failed to deserialize the JSON body into the target type: system: invalid type: sequence, expected a "
              "string at line 1 column 21", lists("system"), {}, "texts are sent to it as they are"),
    ("a proxy", "messages.0.content: Input should be a valid string",
     lambda body: isinstance(body["messages"][0]["content"], list), {}, "texts are sent to it as they are"),
    ("a proxy", "This model does not support system prompts", has("system"), {},
     "the system message is sent to it within the first user message"),
    ("a proxy", "system: Extra inputs are not permitted", has("system"), {},
     "the system message is sent to it within the first user message"),
    ("Anthropic", "This model does not support tool use", has("tools"), {}, "no tools are offered to it"),
    ("Anthropic", "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
     says("prefixItems"), {}, "tools are described to it in the part of JSON Schema that all servers take"),
    ("Vertex", "tools.1.input_schema.properties.unit: $ref not supported", says("$ref"), {},
     "tools are described to it in the part of JSON Schema that all servers take"),
    ("Bedrock", {"message": "The value at toolConfig.tools.1.toolSpec.inputSchema.json.properties.days is invalid"},
     says("exclusiveMinimum"), {}, "tools are described to it in the part of JSON Schema that all servers take"),
    ("Anthropic", "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", offers("run"), {},
     "the tool run is not offered to it"),
    ("Anthropic", "tools: Tool name 'run' is reserved", offers("run"), {}, "the tool run is not offered to it"),
    ("Anthropic", "tools.1.custom.description: String should have at most 1024 characters",
     lambda body: any(len(each["description"]) > 1024 for each in body["tools"]), {},
     "descriptions of tools are cut to 1024 characters"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "refused", "parameters", "change"),
    [row[1:] for row in FIELDS],
    ids=[f"{row[0]}-{row[4]}" for row in FIELDS],
)
async def test_a_refusal_of_the_protocols_own_fields_teaches(
    start: Start, body: Any, refused: Refused, parameters: dict[str, Any], change: str
) -> None:
    """Promise: a refused field, tool, schema or form ends no task in this protocol, and nothing else is changed."""
    bench = await start(parameters=parameters)
    told = await learned(bench, anthropic(body) if isinstance(body, str) else body, refused)
    assert told.startswith(change)
    assert ";" not in told


@pytest.mark.parametrize(
    "message",
    [
        "tool_choice: Extra inputs are not permitted",
        "tool_choice: Input tag 'none' found using 'type' does not match any of the expected tags: 'auto', 'any'",
        "Thinking may not be enabled when tool_choice forces tool use.",
    ],
)
async def test_a_choice_of_tools_that_is_refused_is_left_out(start: Start, message: str) -> None:
    """Promise: a server that does not know the choice is asked without it, with its tools."""
    bench = await start()
    assert (
        await learned(bench, anthropic(message), has("tool_choice"), may_call=False) == "tool_choice is not sent to it"
    )
    assert "tools" in bench.server.chats[-1]


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response.",
        "messages.1.content.0.type: Input tag 'thinking' found using 'type' does not match any of the expected tags: "
        "'text', 'image', 'tool_use', 'tool_result'",
    ],
)
async def test_thoughts_that_another_server_has_signed_are_not_sent_back(start: Start, message: str) -> None:
    """Promise: a conversation that was begun at another server of the same model goes on."""
    bench = await start(parameters={"thinking": {"type": "adaptive"}})
    told = await learned(bench, anthropic(message), says("signature"), SYSTEM, USER, SIGNED, RESULT)
    assert told == "its reasoning is not sent back"
    assert bench.server.chats[-1]["thinking"] == {"type": "adaptive"}


async def test_an_answer_is_reserved_less_for_a_prompt_that_fits_beside_it(start: Start) -> None:
    """Promise: "input length and max_tokens exceed the limit" is answered, and the next answer may be long again."""
    bench = await start(parameters={"max_tokens": 16384})
    words = (
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length or "
        "`max_tokens` and try again"
    )
    bench.server.script = lambda _: refuse(400, anthropic(words)) if len(bench.server.chats) == 1 else say("there")
    for _ in range(2):
        assert (await bench.ask()).text == "there"
    assert [sent["max_tokens"] for sent in bench.server.chats] == [16384, 9984, 16384]
