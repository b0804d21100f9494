"""An end of a task that went on writes what is new, and leaves what writing all of it at once would leave."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.errors import MemoryOutageError
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Dense, Hit, KeptPoint, Point, collection_name
from pentad.shared.vectors.selection import DenseQuery, Selection, Whose
from tests.integration.memory.breaking import Breaking
from tests.integration.memory.dying import KilledError
from tests.integration.memory.remembered import TASK, end, everything, exclude, remembering, woken
from tests.support.remembering import COLLECTION

Said = Sequence[tuple[str, str, str | None]]
FIRST: Said = [("user", "my cat is called Ada", "ada"), ("assistant", "What a fine name.", None)]
THEN: Said = [("user", "and my dog Bruno", "ada"), ("assistant", "Noted.", None)]
LAST: Said = [("user", "my boat is green", "bob"), ("assistant", "As grass.", None)]
ENDS = [FIRST, THEN, LAST]

EVERYTHING = Selection(Owner("acme"), Whose.ALL)
Export = tuple[list[KeptPoint], list[Hit]]


async def exported(vectors: EdgeVectors) -> Export:
    """All points; and, as stores give no vectors back, how near each one's neighbourhood is to a question."""
    asked = DenseQuery(
        tuple(HashingEmbedding().vector("a dog?")), Dense.AROUND, Selection(Owner("acme"), Whose.ALL), 1000
    )
    return await everything(vectors), (await vectors.search(COLLECTION, [asked]))[0]


async def at_once(store: Store, folder: Path) -> Export:
    """What is there when the task, as it is now, is written for the first time."""
    vectors = EdgeVectors(folder / "at-once")
    await remembering(store, folder, vectors).handle(woken())
    export = await exported(vectors)
    await vectors.aclose()
    return export


class Counting(EdgeVectors):
    """Says how many points it was given."""

    written = 0

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        self.written += len(points)
        await super().upsert(collection, points)


class Counted(HashingEmbedder):
    """Says how many texts it was given; it may be told to be another model."""

    embedded, model = 0, ""

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        self.embedded += len(texts)
        made = await super().embed(texts, requester)
        return Embedded(self.model or made.model, made.vectors)


async def test_an_end_costs_what_it_adds_and_leaves_what_one_writing_leaves(store: Store, tmp_path: Path) -> None:
    vectors, embedder = Counting(tmp_path / "vectors"), Counted()
    handler = remembering(store, tmp_path, vectors, embedder)
    await handler.prepare()
    costs = []
    for turn in range(1, 61):
        await end(store, [("user", f"Turn {turn} of the dog", "ada"), ("assistant", f"Answer {turn}.", None)])
        embedder.embedded = vectors.written = 0
        await handler.handle(woken())
        costs.append((embedder.embedded, vectors.written))
    assert costs == [(2, 3), (4, 4), *[costs[2]] * 58]
    assert await exported(vectors) == await at_once(store, tmp_path)
    await vectors.aclose()


@pytest.mark.parametrize(("after", "redelivered"), [(False, False), (True, False), (False, True)])
async def test_killed_at_each_write_of_a_later_end_the_next_leaves_what_an_undisturbed_run_leaves(
    store: Store, tmp_path: Path, after: bool, redelivered: bool
) -> None:
    """By another entry of the same task, or by the same one again."""
    vectors = Breaking(tmp_path / "vectors")
    undisturbed = None
    for at in range(1, 4):
        await store.call("DEL", TASK.log)
        await end(store, FIRST)
        await remembering(store, tmp_path, vectors).handle(woken(redelivered=True))
        await end(store, THEN)
        await exclude(store, 1)
        undisturbed = undisturbed or await at_once(store, tmp_path)
        vectors.left, vectors.after = at, after
        with pytest.raises(KilledError):
            await remembering(store, tmp_path, vectors).handle(woken())
        await remembering(store, tmp_path, vectors).handle(woken(redelivered=redelivered))
        assert await exported(vectors) == undisturbed
    await vectors.aclose()


async def test_another_model_gets_the_whole_task_in_its_own_collection(store: Store, tmp_path: Path) -> None:
    vectors, embedder = EdgeVectors(tmp_path / "vectors"), Counted()
    handler = remembering(store, tmp_path, vectors, embedder)
    await end(store, FIRST)
    await handler.handle(woken())
    await end(store, THEN)
    embedder.model = "another"
    with pytest.raises(MemoryOutageError, match="another embedding model"):
        await handler.handle(woken())
    await handler.handle(woken())
    name = collection_name("another", 384)
    assert await vectors.count(name, EVERYTHING) == len(FIRST) + len(THEN) + 1
    await vectors.aclose()


async def test_a_failed_writing_is_made_again_whole(store: Store, tmp_path: Path) -> None:
    vectors, embedder = Breaking(tmp_path / "vectors"), Counted()
    handler = remembering(store, tmp_path, vectors, embedder)
    for said in ENDS:
        await end(store, said)
        await handler.handle(woken())
    vectors.left = 1
    await end(store, THEN)
    with pytest.raises(KilledError):
        await handler.handle(woken())
    embedder.embedded = 0
    await handler.handle(woken())
    assert embedder.embedded == 8
    assert await exported(vectors) == await at_once(store, tmp_path)
    await vectors.aclose()
