"""Another embedding model: what is remembered is found all the while, and embedded anew only where it is not yet."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import REMEMBER
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.memory.reindexing import Reindexed, Reindexing, read_reindexing
from pentad.shared.embedder.embedder import Embedder, HashingEmbedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.memory.current_collection import CURRENT_ALIAS, adopt_current
from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.memory.nodes import reembedded_node_point
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.ranking import MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import KeptPoint, collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.work.entry import Entry
from tests.integration.memory.remembered import TASK, end, remembering, woken
from tests.support.remembering import COLLECTION, remember
from tests.unit.segments.transcripts import said

ASKS = Requester(0, "acme", "s1")
CAT, DOG = "my cat is called Ada", "my dog is called Bruno"
OTHER = collection_name("other", 100)


class OtherModel(HashingEmbedder):
    """Another model, with shorter vectors."""

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        found = await super().embed(texts, requester)
        return Embedded("other", [vector[:100] for vector in found.vectors])


@pytest.fixture
async def vectors(store: Store, tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    """A memory of the model before."""
    made = EdgeVectors(tmp_path / "vectors")
    await end(store, [("user", CAT, None)])
    before = remembering(store, tmp_path, made)
    await before.prepare()
    await adopt_current(made)
    await before.handle(woken())
    yield made
    await made.aclose()


async def found(vectors: EdgeVectors, question: str, embedder: Embedder | None = None) -> list[str]:
    asked = MemoryQuestion(Owner("acme"), question, 10, 1)
    hits = await MemorySearch(vectors, embedder or OtherModel()).search(asked, ASKS)
    return [hit.payload.text for hit in hits]


async def current(vectors: EdgeVectors) -> list[str]:
    return [each.name for each in await vectors.collections() if CURRENT_ALIAS in each.aliases]


def reindexing(store: Store, vectors: EdgeVectors) -> Reindexing:
    return Reindexing(store, vectors, OtherModel(), 1)


async def asked(store: Store) -> list[Entry]:
    found = await store.call("XRANGE", REMEMBER.key(0), "-", "+")
    return [Entry(REMEMBER.key(0), entry.decode(), fields[1]) for entry, fields in found]


async def test_with_another_model_all_is_found_before_while_and_after_it_is_embedded(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    assert await found(vectors, "cat called") == [CAT], "by its words, before anything is embedded"
    work = reindexing(store, vectors)
    assert await work.page(None, queue=True) == Reindexed(OTHER, COLLECTION, 1, 1, None)
    assert await found(vectors, "cat called") == [CAT]
    await end(store, [("user", DOG, None)])  # meanwhile, written with the model in use
    (entry,) = await asked(store)
    await remembering(store, tmp_path, vectors, OtherModel()).handle(entry)
    assert sorted(await found(vectors, "who is called")) == [CAT, DOG], "once each, from both"
    assert await work.page(None, queue=False) == Reindexed(OTHER, COLLECTION, 1, 0, None)
    assert await current(vectors) == [COLLECTION]
    assert (await work.switch()).current == OTHER
    assert await current(vectors) == [OTHER]
    left = {each.name for each in await vectors.collections()} - {FORGOTTEN}
    assert left == {OTHER}, "the other one takes no room any more"
    assert sorted(await found(vectors, "who is called")) == [CAT, DOG]
    assert await work.page(None, queue=True) == Reindexed(OTHER, OTHER, 0, 0, None)
    assert (await work.switch()).current == OTHER


async def pages(work: Reindexing, *, queue: bool) -> list[Reindexed]:
    """All of them, to the last."""
    found = [await work.page(None, queue=queue)]
    while found[-1].next:
        found.append(await work.page(found[-1].next, queue=queue))
    return found


async def test_every_tenant_of_the_memory_is_embedded_anew_whoever_has_an_api_key(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    """Tenants come from what is stored: the memory of one without a key at this gateway was deleted before."""
    await remember(vectors, "aaa", "task-0-7", [said(DOG)])
    work = reindexing(store, vectors)
    found = await pages(work, queue=True)
    assert [(page.tasks, page.left) for page in found] == [(1, 1), (1, 1)], "a page for each tenant"
    assert [WakeUp.model_validate_json(entry.data).actor for entry in await asked(store)] == [
        "aaa/task-0-7",
        TASK.actor,
    ]


async def test_only_what_is_left_is_asked_for_again(store: Store, tmp_path: Path, vectors: EdgeVectors) -> None:
    work = reindexing(store, vectors)
    await pages(work, queue=True)
    (entry,) = await asked(store)
    assert entry.data == woken(TASK).data
    await remembering(store, tmp_path, vectors, OtherModel()).handle(entry)
    await work.page("acme:", queue=True)
    assert len(await asked(store)) == 1


async def test_the_collection_that_counts_stays_while_the_other_one_lacks_anything(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    """The old one goes only when a comparison of both says so; forced, the new one counts and the old one is kept."""
    await remember(vectors, "zzz", "task-0-7", [said(DOG)])
    work = reindexing(store, vectors)
    await pages(work, queue=True)
    [ours] = [entry for entry in await asked(store) if entry.data == woken(TASK).data]
    await remembering(store, tmp_path, vectors, OtherModel()).handle(ours)
    with pytest.raises(ProblemError, match="1 tasks of tenant zzz") as refused:
        await work.switch()
    assert refused.value.status == 409
    assert await current(vectors) == [COLLECTION]
    forced = await work.switch(force=True)
    assert (forced.current, forced.kept) == (OTHER, COLLECTION)
    kept = await vectors.scroll(COLLECTION, Selection(Owner("zzz"), Whose.ALL), 9)
    assert DOG in [point.payload.text for point in kept.points]


async def test_segments_that_are_missing_behind_a_task_are_counted(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    work = reindexing(store, vectors)
    await pages(work, queue=True)
    (entry,) = await asked(store)
    await remembering(store, tmp_path, vectors, OtherModel()).handle(entry)
    await vectors.delete(OTHER, Selection(Owner("acme"), Whose.ALL, kinds=(SEGMENT_KIND,)))
    with pytest.raises(ProblemError, match="1 segments of tenant acme"):
        await work.switch()
    assert await current(vectors) == [COLLECTION]


async def test_the_memory_of_the_model_in_use_counts_where_nothing_was_said(store: Store, tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path / "new")
    assert await adopt_current(vectors) is None
    await vectors.prepare(OTHER, 100)
    await vectors.prepare(COLLECTION, 384)
    adopted = await adopt_current(vectors)
    assert adopted is not None
    assert await current(vectors) == [adopted.name]
    await vectors.aclose()


async def test_an_upgrade_adopts_the_collection_that_has_the_points(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    (tmp_path / "vectors" / "aliases.json").unlink()  # as versions before aliases left it
    await vectors.prepare(OTHER, 100)
    adopted = await adopt_current(vectors)
    assert adopted is not None
    assert adopted.name == COLLECTION


@pytest.mark.parametrize(
    "body",
    [
        {"cursor": 7},
        {"queue": "yes"},
        {"switch": 1},
        {"cursor": "x"},
        {"force": "no"},
        {"cursor": "a:../x"},
        {"cursor": ":"},
    ],
)
async def test_a_wrong_request_is_refused_in_words(store: Store, vectors: EdgeVectors, body: dict[str, Any]) -> None:
    async def read() -> None:
        cursor, queue, *_ = read_reindexing(body)
        await reindexing(store, vectors).page(cursor, queue=queue)

    with pytest.raises(ProblemError, match=r"cursor|queue"):
        await read()


async def test_what_is_known_is_taken_along_to_another_model(store: Store, vectors: EdgeVectors) -> None:
    [segment] = (await vectors.scroll(COLLECTION, Selection(Owner("acme"), kinds=(SEGMENT_KIND,)), 9)).points
    node = KeptPoint(str(UUID(int=7)), replace(segment.payload, kind=NODE_KIND, type="fact", text="ferries go at nine"))
    embedded = await HashingEmbedder().embed([node.payload.text], ASKS)
    await vectors.upsert(COLLECTION, [reembedded_node_point(node, embedded.vectors[0])])
    await reindexing(store, vectors).switch(force=True)  # whatever was said is not embedded yet
    [kept] = (await vectors.scroll(OTHER, Selection(Owner("acme"), kinds=(NODE_KIND,)), 9)).points
    assert kept == node
    assert await reindexing(store, vectors).switch() == Reindexed(OTHER, OTHER, 0, 0, None), "again, nothing happens"
