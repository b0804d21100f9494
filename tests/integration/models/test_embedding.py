"""Embeddings over the wire: in order, checked, and failing like the chat does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pentad.shared.models.embeddings import MAX_DIMENSIONS, MAX_TEXTS, HashingEmbedding
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, say
from tests.support.waiting import PATIENCE_S


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(lambda _request: say("x"), dims=16) as scripted:
        yield scripted


async def test_vectors_come_in_the_order_of_the_texts(server: ScriptedModel) -> None:
    model = OpenAIEmbedding(server.base_url, "key", "embedder")
    assert [model.dimensions] == [None]
    texts = ["eins", "zwei", "你好", "\ud83d"]
    assert await model.embed(texts) == await HashingEmbedding(16).embed([*texts[:3], "?"])
    assert model.dimensions == 16
    assert await model.embed([]) == []
    assert len(server.seen.requests) == 1
    await model.aclose()


async def test_vectors_of_another_length_are_refused(server: ScriptedModel) -> None:
    model = OpenAIEmbedding(server.base_url, None, "embedder", dimensions=8)
    with pytest.raises(ModelRefused, match="length 16 instead of 8"):
        await model.embed(["x"])
    assert server.seen.requests[0].body["dimensions"] == 8
    await model.aclose()


async def test_an_answer_beyond_all_vectors_is_read_no_further() -> None:
    async with ScriptedModel(lambda _request: say("x"), dims=200_000) as server:
        model = OpenAIEmbedding(server.base_url, None, "embedder")
        with pytest.raises(ModelRefused, match="did not answer with JSON"):
            await model.embed(["x"])
        await model.aclose()


async def test_many_vectors_of_the_greatest_length_come_in_one_answer() -> None:
    """Promise: the bound of an answer's values grows with the texts that are asked for."""
    async with ScriptedModel(lambda _request: say("x"), dims=MAX_DIMENSIONS) as server:
        model = OpenAIEmbedding(server.base_url, None, "embedder")
        vectors = await model.embed([f"text {n}" for n in range(MAX_TEXTS)])
        assert [len(vectors), len(vectors[0]), len(server.seen.requests)] == [MAX_TEXTS, MAX_DIMENSIONS, 1]
        await model.aclose()


async def test_a_vector_that_is_too_long_is_refused_with_its_length() -> None:
    async with ScriptedModel(lambda _request: say("x"), dims=MAX_DIMENSIONS + 1) as server:
        model = OpenAIEmbedding(server.base_url, None, "embedder")
        with pytest.raises(ModelRefused, match="a vector of 4097 numbers, where 4096 are the most"):
            await model.embed(["x"])
        await model.aclose()


async def test_other_tasks_have_their_turn_after_each_vector() -> None:
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with ScriptedModel(lambda _request: say("x"), dims=16) as server:
        model = OpenAIEmbedding(server.base_url, None, "embedder")
        await model.embed(["x"])
        beside = asyncio.create_task(neighbour())
        await model.embed([f"text {n}" for n in range(MAX_TEXTS)])
        beside.cancel()
        assert turns > MAX_TEXTS
        await model.aclose()


@pytest.mark.parametrize(
    "body",
    [
        b'{"data":[' + b'",' * (5 << 20) + b"]}",
        b'{"data":"' + b"\\n" * (4 << 20) + b'"}',
        b'{"data":[' + b'{"index":0,"embedding":[]},' * 15_000 + b"1]}",
        b'{"data":[{"index":0,"embedding":"' + b"A" * (1 << 17) + b'"}]}',
        b'{"data":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    ],
    ids=["strings", "line ends", "rows", "base64", "nested"],
)
async def test_a_hostile_answer_is_refused(server: ScriptedModel, body: bytes) -> None:
    model = OpenAIEmbedding(server.base_url, None, "embedder")
    server.refuses = lambda _: Reply(error=body)
    for count in (1, MAX_TEXTS):
        with pytest.raises(ModelRefused):
            await model.embed([f"text {n}" for n in range(count)])
    await model.aclose()


async def test_a_wrong_address_is_refused_and_a_missing_server_is_an_outage(server: ScriptedModel) -> None:
    model = OpenAIEmbedding(server.base_url + "/nowhere/else?x=", None, "embedder")
    with pytest.raises(ModelRefused, match="404"):
        await model.embed(["x"])
    await server.stop()
    with pytest.raises(ModelUnavailable, match="no connection"):
        await model.embed(["x"])
    await model.aclose()


async def test_a_server_that_never_answers_is_an_outage() -> None:
    hung_up = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    silent = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with silent:
        address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"
        model = OpenAIEmbedding(address, None, "embedder", timeout_s=0.1)
        with pytest.raises(ModelUnavailable, match="in time"):
            await model.embed(["x"])
        await asyncio.wait_for(hung_up.wait(), PATIENCE_S)
        await model.aclose()


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "1e39", '"nan"'])
async def test_a_vector_that_holds_no_number_is_refused(value: str) -> None:
    """What is no number, or more than four bytes hold, would be kept and compared with everything for ever."""
    document = f'{{"data":[{{"index":0,"embedding":[0.5,{value}]}}]}}'
    body = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(document)}\r\n\r\n{document}"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(body.encode())
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        model = OpenAIEmbedding(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", None, "embedder")
        with pytest.raises(ModelRefused, match="not all numbers"):
            await model.embed(["x"])
        await model.aclose()
