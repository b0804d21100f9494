"""A service that does not answer costs the first few callers their time limit, and nobody after them."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.embedder.embedder import CircuitBreakerEmbedder
from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.models.circuit import IN_A_ROW
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.store.store import Store
from tests.integration.embedder.embedding import REQUESTER, STREAM, embedding_service, hashed
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until


@pytest.fixture
async def server() -> AsyncIterator[RedisServer]:
    async with RedisServer() as made:
        yield made


async def asked_so_far(store: Store) -> int:
    """How many requests were ever sent: those that nobody answered have been taken back."""
    about = await store.call("XINFO", "STREAM", STREAM)
    return int(about[about.index(b"entries-added") + 1])


async def test_a_silent_service_is_left_alone_and_found_again(server: RedisServer) -> None:
    store = Store(server.url)
    embedder = CircuitBreakerEmbedder(EmbeddingClient(store, 0.1))
    for _ in range(IN_A_ROW):
        with pytest.raises(ModelUnavailable, match=r"did not answer in 0\.1 s"):
            await embedder.embed(["a"], REQUESTER)
    asked_before = await asked_so_far(store)
    for _ in range(20):
        with pytest.raises(ModelUnavailable, match=r"did not answer.*it is asked again in \d") as told:
            await embedder.embed(["a"], REQUESTER)
        assert told.value.retry_after is not None
    assert await asked_so_far(store) == asked_before

    async def answered() -> bool:
        try:
            return (await embedder.embed(["a"], REQUESTER)).vectors[0] == pytest.approx(hashed(["a"])[0], abs=1e-6)
        except ModelUnavailable:
            return False

    async with embedding_service(server.url):
        await wait_until("the probe to find it", answered)
        assert await answered()
    await embedder.aclose()
    await store.close()


async def test_texts_that_cannot_be_embedded_say_nothing_of_the_service(server: RedisServer) -> None:
    store = Store(server.url)
    embedder = CircuitBreakerEmbedder(EmbeddingClient(store, 20.0))
    async with embedding_service(server.url):
        for _ in range(2 * IN_A_ROW):
            with pytest.raises(ModelRefused):
                await embedder.embed(["a"] * 1000, REQUESTER)
        assert (await embedder.embed(["a"], REQUESTER)).vectors
    await embedder.aclose()
    await store.close()
