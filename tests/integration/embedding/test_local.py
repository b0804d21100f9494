"""A service with the local model has loaded it before it says that it is ready, and answers with its name."""

import asyncio

from pentad.services.embedding.app import EmbeddingService
from pentad.services.embedding.handlers import Embedding
from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.embedder.vectors import Requester
from pentad.shared.models.local_embedding import DIMENSIONS, MODEL, LocalEmbedding
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until


async def test_the_local_model_is_ready_with_its_service(store: Store, server_url: str) -> None:
    service = EmbeddingService(Settings(redis_url=server_url, embed_model_type="local"))
    await service.start()
    model = service._current.model._model
    assert isinstance(model, LocalEmbedding)
    assert model._loaded is not None
    client = EmbeddingClient(store, 20.0)
    answer = await client.embed(["my cat eats fish", "what do pets eat", "replication lag"], Requester(0, "t", "s"))
    await client.aclose()
    await service.stop()
    assert (answer.model, {len(vector) for vector in answer.vectors}) == (MODEL, {DIMENSIONS})
    like, unlike = (sum(a * b for a, b in zip(answer.vectors[0], v, strict=True)) for v in answer.vectors[1:])
    assert like > unlike + 0.3


async def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(store: Store) -> None:
    model = LocalEmbedding()
    embedding = Embedding(store, model)
    await embedding.embed(0, "acme", "anna", ["loaded"])
    long = asyncio.create_task(embedding.embed(0, "acme", "anna", [f"{n} word " * 150 for n in range(16)]))
    await wait_until("the long one to be computed", lambda: embedding._computing)
    await embedding.embed(0, "acme", "anna", ["short"])
    assert not long.done()
    assert len(await long) == 16
    await model.aclose()
