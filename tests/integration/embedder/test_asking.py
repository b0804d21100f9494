"""Texts are embedded by a service that is asked over Redis: each caller gets its own answer, in time or not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.shared.embedder.embedder import HashingEmbedder, make_embedder
from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.embedder.vectors import TEXTS_PER_REPLY, Embedded, joined
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.embedder.embedding import (
    REQUESTER,
    STREAM,
    asked,
    embedding_service,
    hashed,
    left,
    requests,
)
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
async def client(store: Store) -> AsyncIterator[EmbeddingClient]:
    made = EmbeddingClient(store, PATIENCE_S)
    yield made
    await made.aclose()


async def test_texts_get_their_vectors_in_order_and_the_models_name(client: EmbeddingClient, server_url: str) -> None:
    texts = ["hello", "你好", "hello", "", "\ud83d"]
    async with embedding_service(server_url):
        answer = await client.embed(texts, REQUESTER)
    assert answer.model == "simple-384"
    for vector, wanted in zip(answer.vectors, hashed([*texts[:4], "?"]), strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)


async def test_a_request_says_whose_it_is_and_why(client: EmbeddingClient, store: Store) -> None:
    asking = asyncio.create_task(client.embed(["a"], REQUESTER))
    command = await asked(store)
    said = (command.tenant_id, command.session_id, command.task_id, command.correlation_id, command.causation_id)
    assert said == ("default", "s1", "t1", "m1", "1-1")
    asking.cancel()


async def test_many_at_once_get_each_its_own_answer_over_one_stream_and_one_more_connection(
    client: EmbeddingClient, store: Store, server_url: str
) -> None:
    wanted = [[f"text {n}", "the same for all"][: 1 + n % 2] for n in range(300)]
    before = len((await store.call("CLIENT", "LIST")).splitlines())
    asking = [asyncio.create_task(client.embed(texts, REQUESTER)) for texts in wanted]
    await asked(store, len(wanted))
    streams = {command.reply_to for command in await requests(store)}
    after = len((await store.call("CLIENT", "LIST")).splitlines())
    async with embedding_service(server_url):
        answers = await asyncio.gather(*asking)
    for answer, texts in zip(answers, wanted, strict=True):
        for vector, text in zip(answer.vectors, texts, strict=True):
            assert vector == pytest.approx(hashed([text])[0], abs=1e-6)
    assert (len(streams), after) == (1, before + 1)


async def test_many_texts_are_asked_for_in_several_requests(client: EmbeddingClient, server_url: str) -> None:
    """Promise: no reply has more vectors than are written and read at once."""
    texts = [f"text {n}" for n in range(2 * TEXTS_PER_REPLY + 1)]
    async with embedding_service(server_url):
        answer = await client.embed(texts, REQUESTER)
    for vector, wanted in zip(answer.vectors, hashed(texts), strict=True):
        assert vector == pytest.approx(wanted, abs=1e-6)


async def test_a_model_that_changes_between_two_requests_is_asked_again_later() -> None:
    parts = [Embedded("one", [[1.0]]), Embedded("two", [[1.0]])]
    with pytest.raises(ModelUnavailable, match="was changed while it was asked"):
        joined(parts)


async def test_answers_leave_nothing_behind(client: EmbeddingClient, store: Store, server_url: str) -> None:
    async with embedding_service(server_url):
        for n in range(3):
            await client.embed([f"text {n}"], REQUESTER)

        async def streams_gone() -> bool:
            return not [key for key in await left(store) if key != b"request"]

        await wait_until("the streams of answers to be gone", streams_gone)


async def test_without_a_service_the_caller_is_told_in_time_and_its_request_is_taken_back(store: Store) -> None:
    client = EmbeddingClient(store, 0.1)
    with pytest.raises(ModelUnavailable, match=r"the embedding service did not answer in 0\.1 s; see that one runs"):
        await client.embed(["a"], REQUESTER)
    await wait_until("an empty stream", lambda: _nothing(store))
    await client.aclose()


async def test_a_caller_that_is_cancelled_leaves_nothing_behind(client: EmbeddingClient, store: Store) -> None:
    for turns in (1, 2, 3, None):
        asking = asyncio.create_task(client.embed(["a"], REQUESTER))
        if turns is None:
            await asked(store)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await wait_until("nothing left", lambda: _nothing(store))
    replies = client._shards[0]
    assert replies.waiting == 0
    await wait_until("the end of the reading", lambda: replies._reader is None)


async def test_another_caller_still_gets_its_answer(client: EmbeddingClient, store: Store, server_url: str) -> None:
    first, second = (asyncio.create_task(client.embed([text], REQUESTER)) for text in "ab")
    await asked(store, 2)
    first.cancel()
    async with embedding_service(server_url):
        assert (await second).vectors[0] == pytest.approx(hashed(["b"])[0], abs=1e-6)


async def test_a_request_that_a_service_took_to_its_grave_is_answered_by_the_next(
    client: EmbeddingClient, store: Store, server_url: str
) -> None:
    await store.call("XGROUP", "CREATE", STREAM, "embedding", "0", "MKSTREAM")
    asking = asyncio.create_task(client.embed(["a"], REQUESTER))
    await asked(store)
    taken = await store.call("XREADGROUP", "GROUP", "embedding", "killed", "STREAMS", STREAM, ">")
    assert len(taken[0][1]) == 1
    async with embedding_service(server_url):
        assert (await asking).vectors[0] == pytest.approx(hashed(["a"])[0], abs=1e-6)


@pytest.mark.parametrize("texts", [["a"] * 257, ["你" * 350_000]])
async def test_too_much_at_once_is_refused_before_it_is_sent(client: EmbeddingClient, texts: list[str]) -> None:
    for embedder in (client, HashingEmbedder()):
        with pytest.raises(ModelRefused, match=r"at once: embed \d+ at most"):
            await embedder.embed(texts, REQUESTER)


async def test_too_many_requests_at_once_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.shared.embedder.embedding_client._MAX_WAITING", 3)
    client = EmbeddingClient(store, PATIENCE_S)
    asking = [asyncio.create_task(client.embed(["a"], REQUESTER)) for _ in range(3)]
    await asked(store, 3)
    with pytest.raises(ModelUnavailable, match="3 requests wait for the embedding service"):
        await client.embed(["a"], REQUESTER)
    await client.aclose()
    for ended in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(ended, ModelUnavailable)


async def test_no_text_is_no_request(client: EmbeddingClient, store: Store) -> None:
    assert (await client.embed([], REQUESTER)).vectors == []
    assert await left(store) == []


async def test_what_hashes_needs_neither_service_nor_redis() -> None:
    store = Store(f"redis://127.0.0.1:{free_port()}/0")
    embedder = make_embedder(Settings(), store)
    assert (await embedder.embed(["hello"], REQUESTER)).vectors == hashed(["hello"])
    await embedder.aclose()
    asking = make_embedder(Settings(embed_model_type="local"), store)
    with pytest.raises(ModelUnavailable, match="cannot be asked: Redis is unavailable"):
        await asking.embed(["hello"], REQUESTER)
    await asking.aclose()
    await store.close()


async def _nothing(store: Store) -> bool:
    return not await store.call("XLEN", STREAM)


async def test_the_default_of_the_file_of_models_is_asked_for(store: Store, tmp_path: Path) -> None:
    (file := tmp_path / "models.json").write_text('{"models":[{"id":"e","kind":"embedding","default":true}]}')
    asking = make_embedder(Settings(pentad_models=file), store)
    assert isinstance(asking, EmbeddingClient)
    await asking.aclose()
