"""The archiver and the embedded memory: one has it, others stand by; while it is away nothing else waits for it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.models import ModelEntry
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import ARCHIVE, LEARN, MEMORY, REMEMBER
from pentad.services.archiver.app import Archiver
from pentad.shared.actors.transcript import entry
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import NodeKind, Tally
from pentad.shared.graph.merging import node_id
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.stores import graph_of, vectors_of
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.registries.registrations import REGISTERED_MODELS
from pentad.shared.service.http import unmet
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.consumer import Consumer
from tests.integration.memory.remembered import AT, ENDED, TASK, end, texts
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.remembering import COLLECTION
from tests.support.waiting import PATIENCE_S, wait_until

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


async def test_it_is_not_ready_while_a_first_search_would_wait_for_the_collection_to_be_made(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, stopped = settings_of(store.url, tmp_path), asyncio.Event()
    vectors, graph, make = vectors_of(settings, store), graph_of(settings, store), ChildVectors.prepare

    async def stop_its_process(self: ChildVectors, name: str, dimensions: int) -> None:
        if not stopped.is_set():
            assert self.process_id is not None
            os.kill(self.process_id, signal.SIGSTOP)
            stopped.set()
        await make(self, name, dimensions)

    monkeypatch.setattr(ChildVectors, "prepare", stop_its_process)
    async with running(settings) as archiver:
        await stopped.wait()
        try:
            assert archiver.checks()["memory"] == "it is being opened"
            assert not archiver.outages(), "a start waits for it"
        finally:
            os.kill(process_of(archiver), signal.SIGCONT)
        await wait_until("readiness", lambda: not unmet([archiver]))
        assert COLLECTION in [each.name for each in await vectors.collections()], "it answers at once"
        assert await graph.tally(TASK.tenant) == Tally(0, 0)
    await vectors.aclose()
    await graph.aclose()


def process_of(archiver: Archiver) -> int:
    """The process that has its memory open."""
    assert isinstance(archiver._vectors, ChildVectors)
    assert archiver._vectors.process_id is not None
    return archiver._vectors.process_id


async def test_it_is_not_ready_before_calls_of_the_memory_are_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, may_go_on, start = asyncio.Event(), asyncio.Event(), Consumer.start

    async def late(self: Consumer) -> None:
        if self.stream is MEMORY:
            reached.set()
            await may_go_on.wait()
        await start(self)

    monkeypatch.setattr(Consumer, "start", late)
    async with running(settings_of(store.url, tmp_path)) as archiver:
        await reached.wait()
        assert unmet([archiver])
        may_go_on.set()
        await wait_until("readiness", lambda: not unmet([archiver]))


async def test_an_embedding_model_that_does_not_answer_keeps_no_archiver_from_being_ready(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pentad.services.archiver.app._FIRST_MODEL_S", 0.05)
    monkeypatch.setattr("pentad.services.archiver.app._EMBED_S", 10 * PATIENCE_S)
    silent = {"embed_model_type": "openai", "embed_base_url": "http://127.0.0.1:1/v1", "embed_model_name": "e"}
    async with running(settings_of(store.url, tmp_path).model_copy(update=silent)) as archiver:
        await wait_until("readiness", lambda: not unmet([archiver]))


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
        await wait_until("no start to wait for it any more", lambda: archiver.outages() == ["memory"])
        in_its_place.unlink()
        await found(vectors)
        await wait_until("it to be well", lambda: archiver.checks()["memory"] is None)
        assert not archiver.outages()
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


async def test_a_model_that_is_registered_later_is_asked_and_one_that_is_removed_is_not(
    store: Store, tmp_path: Path
) -> None:
    """Without a restart; meanwhile what people state is found by rule."""
    fact = {"id": "a", "kind": "fact", "text": "Ada is a cat.", "importance": 0.9, "segments": [1]}
    settings = settings_of(store.url, tmp_path)
    assert settings.pentad_extract == "auto", "nobody has to say so"
    graph, records = graph_of(settings, store), Records(settings.records_url)

    async def extraction(number: int) -> Mapping[str, Any]:
        keys = TaskKeys(0, TASK.tenant, f"task-0-{number}")
        said = {"role": "user", "content": f"My cat {number} is called Ada."}
        await store.call("RPUSH", keys.log, entry(said, TranscriptMeta(at=AT, user_id="ada")))
        await store.call("HSET", keys.header, *chain.from_iterable(ENDED.items()))
        woken = WakeUp(actor=keys.actor).to_json()
        for stream in (REMEMBER, ARCHIVE):
            await store.call("XADD", stream.key(0), "*", "data", woken)
        found: list[Mapping[str, Any]] = []

        async def decided() -> bool:
            record = await records.read(keys.tenant, keys.task)
            found[:] = [record.extraction] if record is not None and record.extraction is not None else []
            return bool(found)

        await wait_until("what is known of the task", decided)
        return found[0]

    async def has(text: str) -> bool:
        with suppress(MemoryOutageError):
            return any(node.text == text for node in await graph.node_page(TASK.tenant, 100))
        return False

    async with (
        ScriptedModel(lambda request: say(json.dumps({"nodes": [fact], "edges": []}))) as model,
        running(settings) as archiver,
    ):
        pool = archiver._models.pool if archiver._models is not None else None
        assert pool is not None
        assert "problem" in await extraction(1)
        await wait_until("the fact by rule", lambda: has("My cat 1 is called Ada."))
        entry_ = {"id": "late", "kind": "llm", "endpoint": model.base_url, "model": "scripted", "default": True}
        registry = await REGISTERED_MODELS.read(store)
        await REGISTERED_MODELS.write(store, registry, "late", ModelEntry.model_validate(entry_))
        await wait_until("the model to be known", lambda: pool.is_real(None))
        assert "value" in await extraction(2)
        await wait_until("the fact by the model", lambda: has("Ada is a cat."))
        assert not await has("My cat 2 is called Ada.")
        await REGISTERED_MODELS.write(store, await REGISTERED_MODELS.read(store), "late", None)
        await wait_until("the model to be gone", lambda: not pool.is_real(None))
        assert "problem" in await extraction(3)
        await wait_until("the fact by rule", lambda: has("My cat 3 is called Ada."))
    assert len(model.seen.chats) == 1
    await graph.aclose()
