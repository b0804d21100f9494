"""A text is embedded once for one model, and what is asked for together is embedded together."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pentad.services.archiver.erased_traces import remove_vectors
from pentad.services.embedding import handlers
from pentad.services.embedding.domain import Wanted, batches
from pentad.services.embedding.handlers import Embedding
from pentad.shared.embedder.vectors import cache_of_task
from pentad.shared.keys import SessionKeys, vector
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.store.store import Store
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail, say
from tests.support.waiting import wait_until


class Counting:
    """The port `EmbeddingModel`, remembering what it was asked."""

    place = "http://127.0.0.1:1/v1"
    dimensions = 1
    most_texts = 64

    def __init__(self, name: str, number: float = 0.0) -> None:
        self.name, self.number = name, number
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        return [[self.number] for _ in texts]

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_text_is_embedded_once_whoever_asks_and_again_for_another_model(store: Store) -> None:
    one, other = Counting("one", 1.0), Counting("other", 2.0)
    assert await Embedding(store, one).embed(0, "acme", "anna", ["a", "b", "a"]) == [[1.0]] * 3
    assert await Embedding(store, again := Counting("one", 7.0)).embed(0, "acme", "anna", ["b", "a"]) == [[1.0]] * 2
    assert await Embedding(store, other).embed(0, "acme", "anna", ["a"]) == [[2.0]]
    assert (one.asked, again.asked, other.asked) == ([["a", "b"]], [], [["a"]])


@pytest.mark.parametrize(("tenant", "whose"), [("acme", "carl"), ("umbrella", "anna"), ("acme", "/s1")])
async def test_no_answer_is_sooner_because_somebody_else_has_asked_the_same(
    store: Store, tenant: str, whose: str
) -> None:
    """Promise: the time of an answer tells nobody what another tenant, user or session has said."""
    one, again = Counting("one", 1.0), Counting("one", 7.0)
    first = Embedding(store, one)
    await asyncio.gather(first.embed(0, "acme", "anna", ["a"]), first.embed(0, tenant, whose, ["a"]))
    assert sum(map(len, one.asked)) == 2, "neither waits for the other's"
    assert await Embedding(store, again).embed(0, tenant, f"{whose}2", ["a"]) == [[7.0]]


async def test_an_erased_task_leaves_no_vector_in_its_session_s_cache_nor_in_its_own(store: Store) -> None:
    """Promise: what was said is embedded anew after it was erased; the vectors of other sessions stay."""
    model = Counting("one")
    embedding, session = Embedding(store, model), SessionKeys(0, "acme", "s1")
    for whose in ("/s1", cache_of_task("t1"), "/s2"):
        await embedding.embed(0, "acme", whose, ["a", "b"])
    await wait_until("the vectors to be cached", lambda: cached(store, 6))
    await remove_vectors(store, session, "t1", ["one"], ["a", "b", "never embedded"])
    assert await cached(store, 2)
    await embedding.embed(0, "acme", "/s2", ["a", "b"])
    assert len(model.asked) == 3, "they are still cached"
    await embedding.embed(0, "acme", "/s1", ["a", "b"])
    assert len(model.asked) == 4


@pytest.mark.parametrize(("length", "then"), [(8, 16), (16, 8)])
async def test_cached_vectors_of_another_length_are_embedded_anew(store: Store, length: int, then: int) -> None:
    """Promise: an endpoint that begins or stops to refuse `dimensions` gives no request vectors of two lengths, and
    none of the length before. The cache holds each text once, under the name by which it is erased."""

    def refusing(body: dict[str, Any]) -> Reply | None:
        if len(server.embedding.vector("a")) != 16 or "dimensions" not in body:
            return None
        return fail(400, message="This model does not support specifying dimensions")

    async with ScriptedModel(lambda _: say(""), dims=length) as server:
        server.refuses = refusing
        for asked, now in (["a", "b"], length), (["b", "c"], then), (["a", "b", "c"], then):
            server.embedding = HashingEmbedding(now)
            model = OpenAIEmbedding(server.base_url, None, "e", dimensions=8)
            vectors = await Embedding(store, model).embed(0, "acme", "/s1", asked)
            assert [len(vector) for vector in vectors] == [now] * len(asked)
            await model.aclose()
    await wait_until("the vectors to be cached", lambda: cached(store, 3))
    await remove_vectors(store, SessionKeys(0, "acme", "s1"), "t1", ["e"], ["a", "b", "c"])
    assert await cached(store, 0)


async def test_an_endpoint_whose_length_is_its_own_mixes_no_cached_vectors(store: Store) -> None:
    """Promise: where no length is configured, cached vectors count while they are of the length that comes now."""
    async with ScriptedModel(lambda _: say(""), dims=16) as server:
        model = OpenAIEmbedding(server.base_url, None, "e")
        await Embedding(store, model).embed(0, "acme", "/s1", ["a"])
        server.embedding = HashingEmbedding(32)
        for asked in ["b"], ["a", "b"], ["a", "c"]:
            again = OpenAIEmbedding(server.base_url, None, "e")
            vectors = await Embedding(store, again).embed(0, "acme", "/s1", asked)
            assert [len(vector) for vector in vectors] == [32] * len(asked)
            await again.aclose()
        await model.aclose()
    assert [request.body["input"] for request in server.seen.requests] == [["a"], ["b"], ["a", "b"], ["c"]]


class Changing(Counting):
    """Each request is for one text, and gets a vector that is longer than those before."""

    dimensions = 0
    most_texts = 1

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await super().embed(texts)
        self.dimensions += 1
        return [[0.0] * self.dimensions for _ in texts]


async def test_an_endpoint_whose_lengths_go_on_changing_is_an_outage(store: Store) -> None:
    """Promise: no request goes on for ever, none gets vectors of two lengths, and none becomes a dead letter for it."""
    model = Changing("one")
    with pytest.raises(ModelUnavailable, match="of one length and then of another"):
        await Embedding(store, model).embed(0, "acme", "/s1", ["a", "b"])
    assert len(model.asked) == 2 + 1 + 1, "each text, and then twice what was of another length"


async def cached(store: Store, count: int) -> bool:
    """Whether so many vectors are in the cache."""
    return len(await store.call("KEYS", vector(0, "*"))) == count


async def test_requests_that_come_one_after_the_other_are_one_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "_GATHER_S", 0.5)
    model = Counting("one")
    embedding = Embedding(store, model)
    first = asyncio.create_task(embedding.embed(0, "acme", "anna", ["a"]))
    while not embedding._waiting:
        await asyncio.sleep(0)
    await asyncio.gather(
        first, embedding.embed(0, "acme", "anna", ["b"]), embedding.embed(0, "acme", "anna", ["a", "c"])
    )
    assert [sorted(texts) for texts in model.asked] == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("texts", "cut"),
    [
        (["a", "b", "c"], [["a", "b"], ["c"]]),
        (["aaaa", "bbbb", "cccc"], [["aaaa", "bbbb"], ["cccc"]]),
        (["aaaa", "bbbbbbb", "c"], [["aaaa"], ["bbbbbbb", "c"]]),
        (["a", "b" * 20, "c"], [["a"], ["b" * 20], ["c"]]),
        ([], []),
    ],
)
def test_a_batch_has_so_many_texts_and_so_many_characters(texts: list[str], cut: list[list[str]]) -> None:
    wanted = batches([Wanted(text, text) for text in texts], 2, 10)
    assert [[each.text for each in batch] for batch in wanted] == cut
