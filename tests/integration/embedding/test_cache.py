"""A text is embedded once for one model, and what is asked for together is embedded together."""

import asyncio
from collections.abc import Sequence

import pytest

from pentad.services.archiver.erased_traces import remove_vectors
from pentad.services.embedding import handlers
from pentad.services.embedding.domain import Wanted, batches
from pentad.services.embedding.handlers import Embedding
from pentad.shared.embedder.vectors import cache_of_task
from pentad.shared.keys import SessionKeys, vector
from pentad.shared.store.store import Store
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
