"""A Redis that does not serve is told at once as what it is, and the same client goes on when it serves again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.store.store import Store
from tests.integration.embedder.embedding import REQUESTER, STREAM, asked, embedding_service, hashed
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.refusing import Way, busy, demoted, full
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    async with RedisServer() as made:
        yield made


async def answered(client: EmbeddingClient) -> bool:
    try:
        return (await client.embed(["again"], REQUESTER)).vectors[0] == pytest.approx(hashed(["again"])[0], abs=1e-6)
    except ModelUnavailable:
        return False


async def test_a_redis_that_is_killed_ends_the_waiting_and_its_return_needs_nothing(server: RedisServer) -> None:
    store = Store(server.url)
    client = EmbeddingClient(store, PATIENCE_S)
    asking = [asyncio.create_task(client.embed([str(n)], REQUESTER)) for n in range(10)]
    await asked(store, 10)
    await asyncio.to_thread(server.kill9)
    async with asyncio.timeout(PATIENCE_S / 2):
        ended = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(error) for error in ended} == {ModelUnavailable}
    with pytest.raises(ModelUnavailable, match="Redis is unavailable"):
        await client.embed(["a"], REQUESTER)
    await asyncio.to_thread(server.start)
    async with embedding_service(server.url):
        await wait_until("an answer", lambda: answered(client))
        await asyncio.to_thread(server.restart)
        await wait_until("an answer after another restart", lambda: answered(client))
    await client.aclose()
    await store.close()


@pytest.mark.parametrize("way", [demoted, full, busy], ids=lambda way: way.__name__)
async def test_a_redis_that_refuses_is_an_outage_and_its_end_needs_nothing(server: RedisServer, way: Way) -> None:
    store = Store(server.url)
    client = EmbeddingClient(store, PATIENCE_S)
    async with embedding_service(server.url):
        assert await answered(client)
        async with way(server):
            with pytest.raises(ModelUnavailable):
                await client.embed(["a"], REQUESTER)
        await wait_until("an answer", lambda: answered(client))
    await client.aclose()
    await store.close()


async def test_a_redis_that_is_silent_costs_no_more_than_the_time_limit(server: RedisServer) -> None:
    store = Store(server.url)
    client = EmbeddingClient(store, 0.3)
    async with embedding_service(server.url):
        assert await answered(client)
        server.pause()
        with pytest.raises(ModelUnavailable, match=r"did not answer in 0\.3 s"):
            await client.embed(["a"], REQUESTER)
        server.resume()
        await wait_until("an answer", lambda: answered(client))
    await client.aclose()
    await store.close()


async def test_a_stream_of_answers_that_was_lost_costs_no_later_answer(server: RedisServer) -> None:
    store = Store(server.url)
    client = EmbeddingClient(store, PATIENCE_S)
    lost = asyncio.create_task(client.embed(["lost"], REQUESTER))
    await asked(store)
    await store.call("FLUSHALL")
    async with embedding_service(server.url):
        assert await answered(client)
    lost.cancel()
    assert await store.call("EXISTS", STREAM) == 1
    await client.aclose()
    await store.close()
