"""What is particular to the OpenAI protocol: its requests, its listing of models, its habits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pentad.shared.models import endpoint
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatRequest, ModelRefused, Usage
from pentad.shared.models.streamed_chat import StreamedChat
from tests.integration.models.conftest import USER, Start
from tests.support.models.model_server import ScriptedModel
from tests.support.models.protocols import OPENAI, ScriptedProtocol
from tests.support.models.replies import Reply, fail, raw, say


@pytest.fixture
def protocol() -> ScriptedProtocol:
    return OPENAI


async def test_the_request_carries_messages_tools_and_key_as_they_are(start: Start) -> None:
    bench = await start()
    system = '{"role":"system","content":"sei nett: ä"}'.encode()
    await bench.ask(system, USER, tools=b'[{"type":"function","function":{"name":"f"}}]')
    request = bench.server.seen.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-secret-key"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [json.loads(system), json.loads(USER)],
    }


async def test_without_tools_none_are_sent_and_without_a_key_none_is(start: Start) -> None:
    bench = await start(key=None)
    await bench.ask()
    assert "tools" not in bench.server.chats[0]
    assert bench.server.seen.requests[0].headers["authorization"] == "Bearer none"


async def test_the_schema_of_an_answer_is_sent_and_left_out_where_the_server_takes_none(direct: bool) -> None:
    def script(request: dict[str, Any]) -> Reply:
        return fail(400, message="response_format is not supported") if "response_format" in request else say("{}")

    async with ScriptedModel(script) as server:
        model = OpenAIChat(server.base_url, "key", "m", direct=direct)
        for _ in range(2):
            request = ChatRequest([USER], None, 20.0, answer_schema=b'{"type":"object"}')
            assert (await model.stream(request, lambda _kind, _text: None)).text == "{}"
        await model.aclose()
        formats = [chat.get("response_format") for chat in server.chats]
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    assert formats == [schema, {"type": "json_object"}, None, None]


async def test_a_request_without_a_body_is_asked_again_as_it_was(direct: bool) -> None:
    async with ScriptedModel(lambda _: say("x")) as server:
        asked = Endpoint(server.base_url, "key", direct=direct)
        assert await asked.fetch("/models", None) == await asked.fetch("/models", None)
        await asked.aclose()
        first, later = server.seen.requests
        assert later == first


async def test_a_missing_model_id_is_the_servers_first_asked_once(start: Start) -> None:
    bench = await start(model=None, models=("qwen", "llama"))
    await asyncio.gather(*(bench.ask() for _ in range(5)))
    paths = [request.path for request in bench.server.seen.requests]
    assert paths.count("/v1/models") == 1
    assert {chat["model"] for chat in bench.server.chats} == {"qwen"}
    assert bench.client.name == "qwen"


async def test_done_is_enough_without_a_finish_reason(start: Start) -> None:
    bench = await start(raw(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'))
    answer = await bench.ask()
    assert (answer.text, answer.finish_reason, answer.model) == ("x", "stop", "m")


async def test_tokens_that_a_server_does_not_count_are_estimated_and_said_so(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: a budget does not run on for ever where nothing is counted."""
    bench = await start(raw(b'data: {"choices":[{"delta":{"content":"' + b"x" * 400 + b'"}}]}\n\ndata: [DONE]\n\n'))
    usage = (await bench.ask()).usage
    assert (usage.estimated, usage.output_tokens, usage.input_tokens > 0) == (True, 100, True)
    assert isinstance(bench.client, StreamedChat)
    assert any("does not count tokens" in line for line in bench.client.learned)
    assert any("does not count tokens" in line and "(model m)" in line for line in caplog.messages), "which model"


async def test_tokens_that_a_server_counts_in_texts_are_not_estimated(start: Start) -> None:
    """Promise: what a server tells of its tokens is used, however it writes it."""
    usage = b'data: {"choices":[],"usage":{"input_tokens":"1000","output_tokens":"20"}}\n\n'
    bench = await start(raw(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n' + usage + b"data: [DONE]\n\n"))
    assert (await bench.ask()).usage == Usage(1000, 20)


async def test_a_listing_without_models_asks_for_the_setting(start: Start) -> None:
    bench = await start(model=None, models=())
    with pytest.raises(ModelRefused, match="LLM_MODEL_ID"):
        await bench.ask()


async def test_a_listing_beyond_all_bounds_is_read_no_further(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_LISTING_BYTES", 20)
    bench = await start(model=None)
    with pytest.raises(ModelRefused, match="did not answer with JSON"):
        await bench.ask()


@pytest.mark.parametrize(("habit", "text"), [("written", "<think>hm</think>\n\nSo."), ("begun", "hm</think>So.")])
async def test_thoughts_between_tags_are_thoughts_where_the_model_is_said_to_write_them(
    start: Start, habit: str, text: str
) -> None:
    bench = await start(say(text, chunks=9), think_tags=habit)
    answer = await bench.ask()
    assert (answer.thinking, answer.text, bench.said) == ("hm", "So.", "So.")


async def test_elsewhere_tags_are_text(start: Start) -> None:
    bench = await start(say("<think>hm</think>So."))
    assert (await bench.ask()).text == "<think>hm</think>So."
