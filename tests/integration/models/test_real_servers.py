"""What servers that others wrote have sent, recorded byte for byte, is read as they meant it.

Recorded on 2026-11-23 with `tests/support/models/record_server.py`: LiteLLM's proxy 1.106 (before our scripted model),
aimock, Node's and uvicorn's servers, nginx 1.22 before uvicorn and before nothing, and llama.cpp's server, build 10434,
with the model of `tests/support/models/tiny_gguf.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

import pytest

from pentad.shared.models.anthropic.chat import AnthropicChat
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import (
    ChatRequest,
    KeyRefused,
    ModelAnswer,
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
    ToolCallDraft,
)
from tests.integration.models.conftest import USER

RECORDED = Path(__file__).parent / "recorded"
HELLO = "Hello, 世界! 😀"
CALL = (ToolCallDraft("calculator", '{"expression":"6*7"}'),)


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.http").read_bytes()


@asynccontextmanager
async def replaying(name: str, size: int) -> AsyncIterator[str]:
    """A server that sends what was recorded in pieces of this size; its base URL."""
    async with answering(lambda _body: recorded(name), size) as url:
        yield url


@asynccontextmanager
async def answering(chosen: Callable[[bytes], bytes | Awaitable[bytes]], size: int) -> AsyncIterator[str]:
    """A server that sends what is chosen by the request's body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        data = chosen(await reader.readexactly(int(length or 0)))
        if not isinstance(data, bytes):
            data = await data
        for at in range(0, len(data), size):
            writer.write(data[at : at + size])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def asked(name: str, direct: bool, size: int = 100_000) -> ModelAnswer:
    async with replaying(name, size) as url:
        chat = AnthropicChat if "anthropic" in name else OpenAIChat
        client = chat(url, None, "m", direct=direct)
        try:
            return await client.stream(ChatRequest([USER], None, 20.0, begin_s=20.0), lambda _kind, _text: None)
        finally:
            await client.aclose()


ANSWERS: dict[str, tuple[str, str, tuple[ToolCallDraft, ...], str]] = {
    "aimock": (HELLO, "hm", (), "stop"),
    "aimock_call": ("", "", CALL, "tool_calls"),
    "litellm": (HELLO, "hm", (), "stop"),
    "litellm_call": ("Let me see.", "what makes 6*7?", CALL, "tool_calls"),
    "llamacpp": (HELLO, "", (), "stop"),
    "llamacpp_anthropic": (HELLO, "hm, what is it?\n", (), "stop"),
    "llamacpp_anthropic_call": ("", "", CALL, "tool_calls"),
    "llamacpp_call": ("", "", CALL, "tool_calls"),
    "llamacpp_length": ("".join(f"line 00{n} of many. \n" for n in range(3)), "", (), "length"),
    "llamacpp_think": (HELLO, "hm, what is it?\n", (), "stop"),
    "node": (HELLO, "hm", (), "stop"),
    "uvicorn": (HELLO, "hm", (), "stop"),
    "nginx_uvicorn": (HELLO, "hm", (), "stop"),
}
REFUSALS: dict[str, tuple[type[ModelFailed], str]] = {
    "aimock_busy": (ModelUnavailable, "429: Rate limited; try again later"),
    "litellm_too_long": (ModelTooLong, "maximum context length"),
    "llamacpp_alternate": (ModelRefused, "roles must alternate user/assistant"),
    "llamacpp_anthropic_too_long": (ModelTooLong, "exceeds the available context size"),
    "llamacpp_bad_tool": (ModelRefused, "Pattern must start with '^'"),
    "llamacpp_full": (ModelUnavailable, "fewer slots (-np), or this model a `concurrency`; try again later"),
    "llamacpp_full_later": (ModelCutOff, "fewer slots (-np), or this model a `concurrency`; try again"),
    "llamacpp_grammar": (ModelRefused, "400: Failed to initialize samplers: failed to parse grammar"),
    "llamacpp_key": (KeyRefused, "401: Invalid API Key; check the API key"),
    "llamacpp_loading": (ModelUnavailable, "503: Loading model; try again later"),
    "llamacpp_too_long": (ModelTooLong, "request (2120 tokens) exceeds the available context size (2048 tokens)"),
    "nginx_502": (ModelUnavailable, "502 Bad Gateway"),
    "nginx_301": (ModelMisconfigured, "sends requests on to https://127.0.0.1: use that as the base URL"),
}
FOLLOWED = {"nginx_301"}
"""The HTTP client's own transport goes on, to where nobody is here."""


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("size", [7, 100_000])
async def test_an_answer_is_read_as_it_was_meant(name: str, size: int, direct: bool) -> None:
    answer = await asked(name, direct, size)
    assert (answer.text, answer.thinking, answer.tool_calls, answer.finish_reason) == ANSWERS[name]


@pytest.mark.parametrize(
    ("name", "direct"), [*product(REFUSALS, [True]), *product(sorted(REFUSALS.keys() - FOLLOWED), [False])]
)
async def test_a_refusal_says_what_to_do(name: str, direct: bool) -> None:
    kind, said = REFUSALS[name]
    with pytest.raises(kind) as failed:
        await asked(name, direct)
    assert said in str(failed.value)


BOUND = b'"maxLength":2000'
TOOLS = b'[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"string",%s}}}}}]' % BOUND
GRAMMARS = ["llamacpp_bad_tool", "llamacpp_grammar"]


@pytest.mark.parametrize("refusal", GRAMMARS)
async def test_a_server_that_makes_no_grammar_of_a_bound_is_not_told_of_it(refusal: str, direct: bool) -> None:
    """All that are under way are refused, and none of them fails."""
    count, bounded, loose = 8, 0, 0
    every = asyncio.Event()

    async def refused_together() -> bytes:
        if bounded == count:
            every.set()
        await every.wait()
        return recorded(refusal)

    def chosen(body: bytes) -> bytes | Awaitable[bytes]:
        nonlocal bounded, loose
        bounded, loose = bounded + (BOUND in body), loose + (BOUND not in body)
        return refused_together() if BOUND in body else recorded("llamacpp_call")

    async with answering(chosen, 100_000) as url:
        client = OpenAIChat(url, None, "m", direct=direct)
        request = ChatRequest([USER], TOOLS, 20.0, begin_s=20.0)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(client.stream(request, lambda _kind, _text: None)) for _ in range(count)]
            again = await client.stream(request, lambda _kind, _text: None)
        finally:
            await client.aclose()
    assert [answer.tool_calls for answer in (*(one.result() for one in asked), again)] == [CALL] * (count + 1)
    assert (bounded, loose) == (count, count + 1)


async def test_a_model_that_takes_turns_only_is_sent_one_message_of_the_user(direct: bool) -> None:
    """What is recalled stands before what is asked."""
    asked: list[list[str]] = []

    def chosen(body: bytes) -> bytes:
        asked.append([message["content"] for message in json.loads(body)["messages"]])
        return recorded("llamacpp_alternate" if len(asked[-1]) > 1 else "llamacpp")

    async with answering(chosen, 100_000) as url:
        client = OpenAIChat(url, None, "m", direct=direct)
        try:
            for _ in range(2):
                answer = await client.stream(ChatRequest([USER, USER], None, 20.0), lambda _kind, _text: None)
                assert answer.text == HELLO
        finally:
            await client.aclose()
    assert asked == [["hi", "hi"], ["hi\n\nhi"], ["hi\n\nhi"]]


async def test_a_server_may_teach_one_thing_after_the_other(direct: bool) -> None:
    refused: list[str] = []

    def chosen(body: bytes) -> bytes:
        turns = len(json.loads(body)["messages"])
        refused.append("llamacpp_alternate" if turns > 1 else "llamacpp_grammar" if BOUND in body else "llamacpp_call")
        return recorded(refused[-1])

    async with answering(chosen, 100_000) as url:
        client = OpenAIChat(url, None, "m", direct=direct)
        try:
            answer = await client.stream(ChatRequest([USER, USER], TOOLS, 20.0), lambda _kind, _text: None)
        finally:
            await client.aclose()
    assert answer.tool_calls == CALL
    assert refused == ["llamacpp_alternate", "llamacpp_grammar", "llamacpp_call"]


async def test_a_server_that_refuses_each_form_is_asked_a_few_times_and_has_taught_nothing(direct: bool) -> None:
    """Promise: repeats are bounded, and what did not help is not kept."""
    bodies: list[bytes] = []

    def chosen(body: bytes) -> bytes:
        bodies.append(body)
        return recorded("llamacpp_grammar")

    async with answering(chosen, 100_000) as url:
        client = OpenAIChat(url, None, "m", direct=direct)
        try:
            for _ in range(2):
                with pytest.raises(ModelRefused, match="failed to parse grammar"):
                    await client.stream(ChatRequest([USER], TOOLS, 20.0), lambda _kind, _text: None)
        finally:
            await client.aclose()
    half = len(bodies) // 2
    assert half <= 6
    assert bodies[half:] == bodies[:half]
    assert [BOUND in body for body in bodies[:half]] == [True] + [False] * (half - 1)


async def test_reasoning_that_came_through_a_proxy_goes_back_through_it(direct: bool) -> None:
    answer = await asked("litellm_call", direct)
    assert answer.thoughts is not None
    assert (answer.thoughts["of"], answer.thoughts["fields"]) == ("openai/m", {"reasoning_content": "what makes 6*7?"})


VECTORS: dict[str, tuple[type[ModelFailed], str] | None] = {
    "llamacpp_embedding": None,
    "llamacpp_no_embedding": (ModelMisconfigured, "Start it with `--embeddings`; start the server so"),
    "llamacpp_large_text": (
        ModelTooLong,
        "increase the physical batch size (current batch size: 512); the conversation, or",
    ),
}
LISTED = {"llamacpp_models": "tiny"}


@pytest.mark.parametrize("name", VECTORS)
async def test_a_vector_or_why_there_is_none(name: str) -> None:
    expected = VECTORS[name]
    async with replaying(name, 100_000) as url:
        model = OpenAIEmbedding(url, None, "m")
        try:
            if expected is None:
                [vector] = await model.embed(["x"])
                assert (len(vector), max(vector)) == (512, 1.0)
                return
            with pytest.raises(expected[0]) as failed:
                await model.embed(["x"])
            assert type(failed.value) is expected[0]
            assert expected[1] in str(failed.value)
        finally:
            await model.aclose()


async def test_of_a_text_that_is_too_long_the_beginning_counts() -> None:
    """llama.cpp's server takes 512 tokens of a text unless it is started with more: a page in Chinese has them."""
    asked: list[list[str]] = []

    def chosen(body: bytes) -> bytes:
        asked.append(json.loads(body)["input"])
        fits = all(len(text) <= 512 for text in asked[-1])
        return recorded("llamacpp_embedding" if fits else "llamacpp_large_text")

    page = "猫" * 2000
    async with answering(chosen, 100_000) as url:
        model = OpenAIEmbedding(url, None, "m")
        try:
            [vector] = await model.embed([page])
            with pytest.raises(ModelTooLong):  # which of them, its caller finds out
                await model.embed(["x", page])
        finally:
            await model.aclose()
    assert len(vector) == 512
    assert asked == [[page], [page[:1000]], [page[:500]], ["x", page]]


@pytest.mark.parametrize("name", LISTED)
async def test_the_first_model_that_is_listed_is_asked(name: str, direct: bool) -> None:
    async with replaying(name, 7) as url:
        client = OpenAIChat(url, None, None, direct=direct)
        try:
            with pytest.raises(ModelFailed):  # the list again, where the answer should be
                await client.stream(ChatRequest([USER], None, 20.0, begin_s=20.0), lambda _kind, _text: None)
            assert client.name == LISTED[name]
        finally:
            await client.aclose()


def test_every_recording_is_read() -> None:
    assert {path.stem for path in RECORDED.iterdir()} == {*ANSWERS, *REFUSALS, *VECTORS, *LISTED}
