"""The archiver and the embedded memory: one has it, others stand by; while it is away nothing else waits for it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import ARCHIVE, LEARN, REMEMBER
from pentad.services.archiver.app import Archiver
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.merging import node_id
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from tests.integration.memory.remembered import TASK, end, texts
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.remembering import COLLECTION
from tests.support.waiting import wait_until

SAID = [("user", "my cat is called Ada", "ada")]
WOKEN = WakeUp(actor=TASK.actor).to_json()


def settings_of(url: str, folder: Path) -> Settings:
    return Settings(redis_url=url, pentad_data_dir=folder, pentad_grace_s=0, pentad_lease_s=0.5)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Archiver]:
    service = Archiver(settings)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


async def ended(store: Store) -> None:
    """A task ends, as its runner commits it."""
    await end(store, SAID, goal="g", remember_of="step-1")
    await store.call("XADD", REMEMBER.key(0), "*", "data", WOKEN)


async def found(vectors: Vectors) -> None:
    """Wait until what was said is found."""

    async def there() -> bool:
        with suppress(MemoryOutageError, MemoryRefusedError):  # nobody has it yet, or the collection is being made
            return await texts(vectors) == [SAID[0][1]]
        return False

    await wait_until("the segment", there)


async def made(vectors: Vectors) -> None:
    """Wait until somebody answers and the collection is there."""

    async def there() -> bool:
        with suppress(MemoryOutageError):
            return COLLECTION in [each.name for each in await vectors.collections()]
        return False

    await wait_until("the collection", there)


async def test_the_collection_is_there_from_the_start_and_a_task_is_found_at_its_end(
    store: Store, tmp_path: Path
) -> None:
    settings = settings_of(store.url, tmp_path)
    vectors = vectors_of(settings, store)
    async with running(settings) as archiver:
        assert archiver.checks()["memory"] == "it is being opened", "it is not ready before it can be asked"
        await made(vectors)
        await ended(store)
        await found(vectors)
        assert (archiver.alive(), archiver.checks()["memory"]) == (True, None)
    await vectors.aclose()


async def test_a_second_archiver_stands_by_ready_and_takes_over(store: Store, tmp_path: Path) -> None:
    settings = settings_of(store.url, tmp_path)
    vectors = vectors_of(settings, store)
    async with running(settings) as first:
        await made(vectors)
        async with running(settings) as second:
            await wait_until("it to stand by", lambda: second.checks()["memory"] is None)
            assert second.alive()
            await first.stop()
            await ended(store)
            await found(vectors)
    await vectors.aclose()


async def test_while_the_memory_is_away_records_are_written_and_what_left_redis_is_found_later(
    store: Store, tmp_path: Path
) -> None:
    settings = settings_of(store.url, tmp_path)
    in_its_place = tmp_path / "memory" / "vectors"
    in_its_place.parent.mkdir()
    in_its_place.write_text("a file where the folder should be")
    vectors = vectors_of(settings, store)
    async with running(settings) as archiver:
        await ended(store)
        await store.call("XADD", ARCHIVE.key(0), "*", "data", WOKEN)

        async def gone() -> bool:
            return not await store.call("EXISTS", TASK.header)

        await wait_until("the task to leave Redis", gone)
        assert await Records(settings.records_url).read(TASK.tenant, TASK.task) is not None
        assert "cannot be opened" in (archiver.checks()["memory"] or "")
        assert archiver.alive()
        in_its_place.unlink()
        await found(vectors)
        await wait_until("it to be well", lambda: archiver.checks()["memory"] is None)
    await vectors.aclose()


async def known(graph: Graph) -> None:
    """Wait until something is known from the task."""

    async def there() -> bool:
        with suppress(MemoryOutageError):
            return (await graph.tally(TASK.tenant)).nodes > 0
        return False

    await wait_until("the task in the graph", there)


async def test_the_graph_is_asked_by_way_of_the_archiver_that_has_the_vectors(store: Store, tmp_path: Path) -> None:
    settings = settings_of(store.url, tmp_path)
    graph = graph_of(settings, store)
    async with running(settings) as first, running(settings) as second:
        await ended(store)
        await known(graph)
        assert (first.checks()["graph"], second.checks()["graph"]) == (None, None)
        await first.stop()
        await known(graph)
    await graph.aclose()


async def test_while_the_graph_is_away_what_was_said_is_found_and_what_is_known_comes_later(
    store: Store, tmp_path: Path
) -> None:
    settings = settings_of(store.url, tmp_path)
    in_its_place = tmp_path / "memory" / "graph"
    in_its_place.parent.mkdir()
    in_its_place.write_text("a file where the folder should be")
    vectors, graph = vectors_of(settings, store), graph_of(settings, store)
    async with running(settings) as archiver:
        await ended(store)

        def troubled() -> bool:
            return "cannot be opened" in (archiver.checks()["graph"] or "")

        await wait_until("trouble with the graph", troubled)
        await wait_until("the memory to be prepared", lambda: archiver.checks()["memory"] is None)

        async def asked() -> bool:
            return bool(await store.call("XLEN", LEARN.key(0)))

        await wait_until("the task to be remembered", asked)
        in_its_place.unlink()
        await known(graph)
        await found(vectors)
        await wait_until("it to be well", lambda: archiver.checks()["graph"] is None)
    await vectors.aclose()
    await graph.aclose()


async def test_a_model_is_asked_what_is_known_from_an_archived_task(store: Store, tmp_path: Path) -> None:
    fact = {"id": "a", "kind": "fact", "text": "Ada is a cat.", "importance": 0.9, "segments": [1]}
    async with ScriptedModel(lambda request: say(json.dumps({"nodes": [fact], "edges": []}))) as model:
        asks = {"pentad_extract": "auto", "llm_base_url": model.base_url, "llm_model_id": "scripted"}
        settings = settings_of(store.url, tmp_path).model_copy(update=asks)
        graph = graph_of(settings, store)
        name = node_id(Owner(TASK.tenant, "ada"), NodeKind.FACT, "Ada is a cat.")
        async with running(settings):
            await ended(store)
            await store.call("XADD", ARCHIVE.key(0), "*", "data", WOKEN)

            async def there() -> bool:
                with suppress(MemoryOutageError):
                    return bool(await graph.nodes(Owner(TASK.tenant, "ada"), [name]))
                return False

            await wait_until("the fact", there)
        await graph.aclose()
