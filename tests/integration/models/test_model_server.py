"""The scripted server is a fair stand-in: the official client reads it, and it plays its part as a process too."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from anthropic import AsyncAnthropic, OverloadedError
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ToolCallDraft
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import call, fail, say
from tests.support.waiting import PATIENCE_S

ASKED: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hi"}]


async def test_the_official_client_reads_its_answers() -> None:
    async with (
        ScriptedModel(lambda _request: call(("f", {"a": 1}), text="well"), dims=8) as server,
        AsyncOpenAI(base_url=server.base_url, api_key="x", max_retries=0) as client,
    ):
        whole = await client.chat.completions.create(model="m", messages=ASKED)
        assert whole.choices[0].message.content == "well"
        assert whole.choices[0].message.tool_calls
        streamed = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        chunks = [chunk async for chunk in streamed]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "well"
        assert [model.id async for model in client.models.list()] == ["scripted"]
        vectors = await client.embeddings.create(model="m", input=["x"])
        expected = HashingEmbedding(8).vector("x")
        assert max(abs(a - b) for a, b in zip(vectors.data[0].embedding, expected, strict=True)) < 1e-6


async def test_the_official_anthropic_client_reads_its_answers() -> None:
    reply = call(("f", {"a": 1}), text="well said", thinking="hmm", chunks=2)
    async with (
        ScriptedModel(lambda _request: reply) as server,
        AsyncAnthropic(base_url=server.base_url.removesuffix("/v1"), api_key="x", max_retries=0) as client,
    ):
        asked: Any = {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "u"}]}],
        }
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        for message in (whole, streamed):
            thinking, said, called = (block.to_dict() for block in message.content)
            assert (thinking["thinking"], said["text"], called["input"]) == ("hmm", "well said", {"a": 1})
            assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 4)
        server.script = lambda _request: fail(529, message="Overloaded")
        with pytest.raises(OverloadedError, match="Overloaded"):
            await client.messages.create(**asked)


async def test_as_a_process_it_plays_a_turn() -> None:
    command = [sys.executable, "-m", "tests.support.models.model_server", "--turn", "--say", "20"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        ready = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        model = OpenAIChat(ready.decode().split()[-1], None, None)
        asked = b'{"role":"user","content":"what is (1+2)*3?"}'
        wanted = await _ask(model, asked)
        assert wanted.tool_calls == (ToolCallDraft("calculator", '{"expression":"(1+2)*3"}'),)
        assert (await _ask(model, b'{"role":"user","content":"hello"}')).tool_calls[0].name == "echo"
        told = await _ask(model, asked, b'{"role":"tool","tool_call_id":"c","content":"9"}')
        assert len(told.text.split()) == 20
        await model.aclose()
    finally:
        process.terminate()
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_it_starts_again_on_the_same_port() -> None:
    server = ScriptedModel(lambda _request: say("x"))
    async with server:
        address = server.base_url
    async with server:
        assert server.base_url == address


async def _ask(model: OpenAIChat, *messages: bytes) -> ModelAnswer:
    return await model.stream(ChatRequest(messages, None, 10.0), lambda _kind, _text: None)
