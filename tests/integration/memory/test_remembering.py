"""What was said in a task is found after its end: once, whatever is killed, away, moved or said again meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import ARCHIVE, REMEMBER
from pentad.services.archiver import remembering as remembering_module
from pentad.services.archiver.domain import MOST_TEXTS
from pentad.services.archiver.handlers import Archiving
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.errors import MemoryOutageError, PoisonError
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.increments import new_points
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Point
from pentad.shared.work.entry import Entry
from tests.integration.memory.breaking import Breaking
from tests.integration.memory.dying import KilledError
from tests.integration.memory.remembered import TASK, end, everything, exclude, remembering, texts, woken

CAT = [("user", "my cat is called Ada", "ada"), ("assistant", "What a fine name.", None)]
MORE = [("user", "and my dog Bruno", "ada"), ("assistant", "Noted.", None)]


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    made = EdgeVectors(tmp_path / "vectors")
    yield made
    await made.aclose()


async def test_an_ended_task_is_found_as_what_its_speaker_said(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    await end(store, CAT)
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await texts(vectors) == [text for _, text, _ in CAT]
    assert {(p.payload.owner.tenant, p.payload.owner.user) for p in await everything(vectors)} == {("acme", "ada")}
    assert await everything(vectors, "another") == []


async def test_what_a_version_without_speakers_wrote_is_its_beginners(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    await end(store, [(role, text, None) for role, text, _ in CAT], user="bob")
    await remembering(store, tmp_path, vectors).handle(woken())
    assert {p.payload.owner.user for p in await everything(vectors)} == {"bob"}


async def test_opened_again_and_ended_again_it_adds_and_never_doubles(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    handler = remembering(store, tmp_path, vectors)
    await end(store, CAT)
    for _ in range(2):
        await handler.handle(woken())
    first = {point.id for point in await everything(vectors)}
    await end(store, MORE, status="active")
    await handler.handle(woken())
    assert {point.id for point in await everything(vectors)} == first, "what goes on is remembered at its end"
    await end(store, [])
    await handler.handle(woken())
    assert await texts(vectors) == [text for _, text, _ in CAT + MORE]


async def test_what_was_moved_away_is_not_found_any_more(store: Store, tmp_path: Path, vectors: EdgeVectors) -> None:
    handler = remembering(store, tmp_path, vectors)
    await end(store, [*CAT, ("user", "a secret of bob", "bob"), ("assistant", "I see.", None)])
    await handler.handle(woken())
    await exclude(store, 2, 3)
    await handler.handle(woken())
    assert await texts(vectors) == [text for _, text, _ in CAT]
    assert {point.payload.owner.user for point in await everything(vectors)} == {"ada"}
    await exclude(store, 0, 1)
    await handler.handle(woken())
    assert await everything(vectors) == []


async def test_a_task_that_has_left_redis_is_read_from_its_record(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    records = Records(str(tmp_path / "records"))
    await end(store, CAT, goal="g")
    archive = Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=TASK.actor).to_json())
    await Archiving(store, records, 0, 60).handle(archive)
    assert not await store.call("EXISTS", TASK.header)
    ((_, fields),) = await store.call("XRANGE", REMEMBER.key(0), "-", "+")
    assert fields[1] == woken().data, "nobody had asked to remember it"
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await texts(vectors) == [text for _, text, _ in CAT]


async def test_an_end_that_has_asked_is_not_asked_for_again(store: Store, tmp_path: Path) -> None:
    await end(store, CAT, goal="g", remember_of="step-1")
    archive = Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=TASK.actor).to_json())
    await Archiving(store, Records(str(tmp_path / "records")), 0, 60).handle(archive)
    assert await store.call("XLEN", REMEMBER.key(0)) == 0


async def test_a_task_that_is_nowhere_is_nothing_to_remember(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    handler = remembering(store, tmp_path, vectors)
    await handler.prepare()
    await handler.handle(woken())
    assert await everything(vectors) == []


@pytest.mark.parametrize("data", [b"", b"no json", b'{"type":"wake_up","version":1,"actor":"acme"}',
                                  b'{"type":"wake_up","version":1,"actor":"acme/task-1-1"}',
                                  b'{"type":"wake_up","version":1,"actor":"acme/../x"}'])  # fmt: skip
async def test_an_entry_that_names_no_task_of_the_shard_is_set_aside(
    store: Store, tmp_path: Path, vectors: EdgeVectors, data: bytes
) -> None:
    with pytest.raises(PoisonError):
        await remembering(store, tmp_path, vectors).handle(Entry(REMEMBER.key(0), "1-1", data))


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_a_redelivery_leaves_what_an_undisturbed_run_leaves(
    store: Store, tmp_path: Path, after: bool
) -> None:
    long = [("user", f"Sentence number {n}.", "ada") for n in range(300)]
    await end(store, long)
    await exclude(store, 7)
    calm = Breaking(tmp_path / "calm")
    await remembering(store, tmp_path, calm).handle(woken())
    writes, undisturbed = -calm.left, await everything(calm)
    await calm.aclose()
    assert (writes, len(undisturbed)) == (7, 300), "a collection, a deletion, five upserts; 299 segments and their task"
    for at in range(1, writes + 1):
        there = Breaking(tmp_path / f"killed-{at}")
        there.left, there.after = at, after
        with pytest.raises(KilledError):
            await remembering(store, tmp_path, there).handle(woken())
        await remembering(store, tmp_path, there).handle(woken())
        assert await everything(there) == undisturbed
        await there.aclose()


class Outage(HashingEmbedder):
    """An embedding that fails as it is told to, and says what it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error, self.asked = error, list[int]()

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        self.asked.append(len(texts))
        if self.error is not None:
            raise self.error
        return await super().embed(texts, requester)


async def test_texts_are_embedded_in_bounded_batches(store: Store, tmp_path: Path, vectors: EdgeVectors) -> None:
    embedder = Outage()
    await end(store, [("user", f"Sentence number {n}.", "ada") for n in range(2 * MOST_TEXTS + 1)])
    handler = remembering(store, tmp_path, vectors, embedder)
    await handler.prepare()
    embedder.asked.clear()
    await handler.handle(woken())
    assert embedder.asked == [MOST_TEXTS, MOST_TEXTS, 1]


async def test_an_embedding_that_is_away_is_waited_for_and_one_that_refuses_is_a_failure(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    embedder = Outage(ModelUnavailable("no answer"))
    handler = remembering(store, tmp_path, vectors, embedder)
    await end(store, CAT)
    with pytest.raises(MemoryOutageError, match="no answer"):
        await handler.handle(woken())
    embedder.error = ModelRefused("too long")
    with pytest.raises(ModelRefused):
        await handler.handle(woken())
    embedder.error = None
    await handler.handle(woken())
    assert len(await texts(vectors)) == len(CAT)


class Late(EdgeVectors):
    """Lets something happen before its first upsert is done."""

    meanwhile: Callable[[], Any] | None = None

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            await happens()
        await super().upsert(collection, points)


async def test_a_slow_writer_does_not_bring_back_what_was_moved_meanwhile(store: Store, tmp_path: Path) -> None:
    vectors = Late(tmp_path / "vectors")
    quick = remembering(store, tmp_path, vectors)
    await end(store, CAT + MORE)

    async def moved() -> None:
        await exclude(store, 2, 3)
        await quick.handle(woken())

    vectors.meanwhile = moved
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await texts(vectors) == [text for _, text, _ in CAT]
    await vectors.aclose()


async def test_tasks_do_not_disturb_each_other(store: Store, tmp_path: Path, vectors: EdgeVectors) -> None:
    handler = remembering(store, tmp_path, vectors)
    await end(store, CAT)
    other = TaskKeys(0, "other", TASK.task)
    await store.call("COPY", TASK.log, other.log)
    await store.call("COPY", TASK.header, other.header)
    await asyncio.gather(handler.handle(woken()), handler.handle(woken(other)))
    assert [len(await everything(vectors, tenant)) for tenant in ("acme", "other")] == [3, 3]


async def test_long_tasks_leave_others_their_turn_after_a_few_points(
    store: Store, tmp_path: Path, vectors: EdgeVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await end(store, [("user", f"number {n} of many", "ada") for n in range(200)])
    handler = remembering(store, tmp_path, vectors)
    made, between = 0, [0]

    def counted(*args: Any) -> Iterator[Point]:
        nonlocal made
        for point in new_points(*args):
            made += 1
            yield point

    async def others() -> None:
        nonlocal made
        while True:
            between.append(made)
            made = 0
            await asyncio.sleep(0)

    monkeypatch.setattr(remembering_module, "new_points", counted)
    beside = asyncio.create_task(others())
    await asyncio.gather(handler.handle(woken(redelivered=True)), handler.handle(woken(redelivered=True)))
    beside.cancel()
    assert (sum(between), max(between)) == (400, 8)
    assert len(await texts(vectors)) == 200
