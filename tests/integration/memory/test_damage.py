"""What is missing from the stores of the memory is noticed and told with what to do; what was meant to go is not."""

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest

from pentad.services.gateway.memory.reindexing import Reindexing
from pentad.shared.errors import MemoryDamagedError
from pentad.shared.keys import MEMORY_COUNTS, TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.memory.memory_counts import MEND, REBUILD, MemoryCounts
from pentad.shared.memory.rebuild_progress import Rebuilds
from pentad.shared.memory.stores import vectors_of
from pentad.shared.service.http import HttpServer, health_app
from pentad.shared.store.store import Store
from tests.integration.client.test_doctor import examined, said
from tests.integration.memory.rebuilt import Archive
from tests.integration.memory.test_archiver_memory import ended, found, running, settings_of
from tests.integration.memory.test_reindexing import OtherModel
from tests.support.remembering import COLLECTION
from tests.support.waiting import wait_until

TALK = [("user", f"I met {name} Solberg in Tromso", "ada") for name in ("Mimi", "Olga", "Nils", "Lars", "Erik")]
OLD, OTHER = TaskKeys(0, "acme", "task-0-2"), TaskKeys(0, "acme", "task-0-3")


@pytest.fixture
async def archive(store: Store, tmp_path: Path) -> AsyncIterator[Archive]:
    """A memory in which two tasks are, and that was looked at."""
    made = Archive(store, tmp_path)
    assert await made.look() == [], "a new one lacks nothing"
    await made.archive(OLD, TALK)
    await made.archive(OTHER, [("user", "my boat is green", "bob")])
    assert await made.look() == []
    yield made
    await made.aclose()


async def drop_collection(archive: Archive) -> None:
    """As a server that has lost one: nobody has told of it."""
    archive.vectors.removals = None
    for each in await archive.vectors.collections():
        await archive.vectors.drop(each.name)
    await archive.again()


async def rewind_graph(archive: Archive) -> None:
    """A copy from before the last writes is put back."""
    copy = archive.folder / "copy.db"
    with sqlite3.connect(copy) as to, sqlite3.connect(archive.folder / "graph" / "graph.db") as wire:
        wire.backup(to)
    await archive.archive(TaskKeys(0, "acme", "task-0-7"), [("user", "I met Kari Nordmann in Bodo", "ada")])
    assert await archive.look() == []
    await archive.aclose()
    shutil.rmtree(archive.folder / "graph")
    (archive.folder / "graph").mkdir()
    copy.rename(archive.folder / "graph" / "graph.db")
    archive.open()
    await archive.remembering.prepare()


async def lose_rows(archive: Archive) -> None:
    """Nodes are gone that nobody has removed."""
    await archive.aclose()
    with sqlite3.connect(archive.folder / "graph" / "graph.db") as wire:
        removes = [sql for (sql,) in wire.execute("SELECT sql FROM sqlite_master WHERE name = 'node_removed'")]
        wire.execute("DROP TRIGGER node_removed")
        wire.execute("DELETE FROM node WHERE kind = 'entity'")
        wire.execute(removes[0])
    archive.open()


LOSSES: list[tuple[Callable[[Archive], object], str]] = [
    (lambda archive: archive.again("vectors"), "points are missing from the long-term memory: memory-"),
    (drop_collection, "points are missing from the long-term memory: memory-"),
    (lambda archive: archive.again("graph"), "the graph is another one than was written: it has 0 of"),
    (rewind_graph, "the graph is as it was earlier: it knows of"),
    (lose_rows, "nodes or edges are missing from the graph: it has"),
]


@pytest.mark.parametrize(("lose", "told"), LOSSES, ids=["vectors", "collection", "graph", "rewound", "rows"])
async def test_a_loss_is_told_with_what_to_do_until_the_memory_is_rebuilt(
    archive: Archive, lose: Callable[[Archive], object], told: str
) -> None:
    before = await archive.contents()
    lost = lose(archive)
    await lost  # type: ignore[misc]
    [damage] = await archive.look()
    assert damage.startswith(told)
    assert damage.endswith(f": {REBUILD}")
    await archive.archive(TaskKeys(0, "acme", "task-0-9"), TALK)
    await archive.archive(TaskKeys(0, "acme", "task-0-10"), TALK)
    assert await archive.look() == [damage], "what is written meanwhile does not hide it"
    assert (await archive.rebuild()).has_ended
    assert await archive.look() == []
    assert set(before[0]) <= set((await archive.contents())[0])


async def test_what_a_person_has_forgotten_or_erased_is_no_loss(archive: Archive) -> None:
    await archive.forget(TALK[0][1])
    await archive.write(OLD)
    assert await archive.look() == []
    await archive.graph.forget_task("acme", OLD.task)
    await archive.graph.forget_tenant("acme")
    for each in await archive.vectors.collections():
        for text in {text for text in await archive.texts() if each.name != FORGOTTEN}:
            await archive.forget(text)
    assert await archive.texts() == []
    assert await archive.look() == [], "all of it was meant to go"
    await archive.again()
    assert await archive.look() == []


async def test_a_collection_that_was_replaced_by_another_model_s_is_no_loss(archive: Archive) -> None:
    work = Reindexing(archive.store, archive.vectors, OtherModel(), 1)
    await archive.archive(OLD, TALK)
    fresh = (await work.page(None, queue=False)).collection
    archive.remembering._writer._embedder = OtherModel()
    archive.remembering._writer.forget_collections()
    for keys in (OLD, OTHER):
        await archive.remembering.rebuild(keys)
    await archive.look()
    assert (await work.switch()).current == fresh
    assert await archive.look() == []
    assert fresh in [each.name for each in await archive.vectors.collections()]
    assert COLLECTION not in [each.name for each in await archive.vectors.collections()]


async def test_a_few_points_that_writers_of_earlier_versions_have_removed_are_no_loss(archive: Archive) -> None:
    archive.vectors.removals = None
    await archive.forget(TALK[0][1])
    assert await archive.look() == []


async def test_a_memory_of_an_earlier_version_lacks_nothing(archive: Archive) -> None:
    """It has no counts: neither in Redis nor in the graph."""
    await archive.store.call("DEL", MEMORY_COUNTS)
    await archive.aclose()
    with sqlite3.connect(archive.folder / "graph" / "graph.db") as wire:
        for name in ("node_written", "node_removed", "edge_written", "edge_removed"):
            wire.execute(f"DROP TRIGGER {name}")
        wire.execute("DROP TABLE counts")
    archive.open()
    assert await archive.look() == []
    await archive.archive(TaskKeys(0, "acme", "task-0-7"), TALK)
    assert await archive.look() == []


async def test_a_file_of_the_graph_that_is_damaged_is_told_with_what_to_do(archive: Archive) -> None:
    for number in range(40):  # some pages
        await archive.archive(TaskKeys(0, "acme", f"task-0-1{number}"), [("user", f"I met Kari Nord{number}", "ada")])
    await archive.aclose()
    file = archive.folder / "graph" / "graph.db"
    with sqlite3.connect(file) as wire:
        wire.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = wire.execute("SELECT rootpage FROM sqlite_master WHERE name = 'node_user'")
    data = bytearray(file.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    file.write_bytes(bytes(data))
    archive.open()
    try:
        told = await archive.look()
    except MemoryDamagedError:
        told = [f"{damage.what}: {damage.do}" for damage in archive.watch.damages]
    assert len(told) == 1
    assert told[0].startswith(f"the graph in {file}")
    assert told[0].endswith(f": {MEND}")


async def test_a_store_of_vectors_that_cannot_be_opened_is_told_also_when_it_is_moved_away(archive: Archive) -> None:
    before, folder = await archive.contents(), archive.folder / "vectors"
    await archive.aclose()
    (folder / COLLECTION / "collection.json").write_text("{")
    archive.open()
    with pytest.raises(MemoryDamagedError, match=MEND):
        await archive.watch.look_at_vectors()
    [damage] = archive.watch.damages
    assert damage.do == MEND
    await archive.again("vectors")
    assert [told.partition(":")[0] for told in await archive.look()] == ["points are missing from the long-term memory"]
    await archive.rebuild()
    assert await archive.look() == []
    assert await archive.contents() == before


async def test_readiness_and_the_doctor_tell_it_and_after_a_rebuild_no_more(store: Store, tmp_path: Path) -> None:
    """The service itself, from a lost folder to a memory that is whole again."""
    settings = settings_of(store.url, tmp_path)
    vectors, counts = vectors_of(settings, store), MemoryCounts(store)

    async def whole() -> bool:
        return not await counts.damages()

    async with running(settings):
        await ended(store)
        await found(vectors)
        await counts.compare_points({}, {each.name: each.points for each in await vectors.collections()})
    assert await counts.damages() == []
    shutil.rmtree(tmp_path / "memory" / "vectors")
    async with running(settings) as archiver:
        await wait_until("the loss to be noticed", lambda: bool(archiver.notes()))
        server = HttpServer(health_app([archiver]), port=0)
        async with httpx2.AsyncClient(base_url=await server.start(), trust_env=False, timeout=20) as http:
            ready = await http.get("/readyz")
        await server.stop()
        assert ready.json()["archiver.memory_vectors"].startswith("note: points are missing from the long-term memory")
        assert ready.json()["archiver.memory_vectors"].endswith(REBUILD)
        _, report = await examined(None, redis_url=store.url)
        [(level, what, do)] = said(report, "long-term")
        assert (level, what.partition(":")[0], do) == ("fail", "points are missing from the long-term memory", REBUILD)
        await Rebuilds(store).start()
        await wait_until("the rebuild", whole)
        await found(vectors)
        await wait_until("the archiver to see it", lambda: not archiver.notes())
        _, report = await examined(None, redis_url=store.url)
        assert said(report, "long-term") == []
    await vectors.aclose()
