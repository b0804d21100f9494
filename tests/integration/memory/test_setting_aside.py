"""Embedded stores of which the disk has spoilt bytes: told without anybody asking, and healed by a rebuild alone."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pentad.shared.errors import MemoryDamagedError
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.memory_counts import GRAPH, MEND, VECTORS, MemoryCounts
from pentad.shared.memory.rebuild_progress import Rebuilds
from pentad.shared.store.store import Store
from tests.integration.client.test_doctor import examined, said
from tests.integration.memory.rebuilt import Archive
from tests.integration.memory.test_archiver_memory import running, settings_of
from tests.support.remembering import COLLECTION
from tests.support.waiting import wait_until

CATS = [TaskKeys(0, "acme", f"task-0-{number}") for number in range(2, 5)]


def spoil(file: Path, kib: int) -> None:
    """As ``dd if=/dev/urandom bs=1024 conv=notrunc`` does."""
    with file.open("r+b") as opened:
        opened.write(random.Random(7).randbytes(kib << 10))


def spoil_payloads(memory: Path) -> None:
    [pages] = memory.glob(f"vectors/{COLLECTION}/shard/segments/*/payload_storage/page_0.dat")
    spoil(pages, 60)


def spoil_configuration(memory: Path) -> None:
    (memory / "vectors" / COLLECTION / "collection.json").write_text("{")


def spoil_graph(memory: Path) -> None:
    spoil(memory / "graph" / "graph.db", 4)


DAMAGES: list[tuple[Callable[[Path], None], str, str]] = [
    (spoil_payloads, VECTORS, f"vectors/{COLLECTION}.damaged"),
    (spoil_configuration, VECTORS, f"vectors/{COLLECTION}.damaged"),
    (spoil_graph, GRAPH, "graph/graph.db.damaged"),
]


@pytest.mark.parametrize(("damage", "store_of", "aside"), DAMAGES, ids=["payloads", "collection", "graph"])
async def test_a_damaged_store_is_told_unasked_and_a_rebuild_sets_it_aside_and_writes_it_anew(
    store: Store, tmp_path: Path, damage: Callable[[Path], None], store_of: str, aside: str
) -> None:
    """The service itself, with its child process: nobody stops it or moves a file."""
    memory, counts = tmp_path / "memory", MemoryCounts(store)
    made = Archive(store, memory, settings_of(store.url, tmp_path).records_url)
    for number, keys in enumerate(CATS):
        await made.archive(keys, [("user", f"my cat number {number} is called Mimi Solberg{number}", "ada")])
    before = await made.contents()
    await made.look()
    await made.aclose()
    damage(memory)

    async def told() -> bool:
        return [each.store for each in await counts.damages()] == [store_of]

    async def whole() -> bool:
        """A store that was set aside is undamaged for a moment, before it is noticed to lack what was written."""
        rebuild = await Rebuilds(store).read()
        return rebuild is not None and rebuild.has_ended and not await counts.damages()

    async with running(settings_of(store.url, tmp_path)) as archiver:
        check = "memory" if store_of == VECTORS else "graph"
        await wait_until("the damage to be told", told)
        await wait_until("readiness to say it", lambda: MEND in (archiver.checks()[check] or ""))
        assert MEND in archiver.notes()[f"memory_{store_of}"]
        _, report = await examined(None, redis_url=store.url)
        assert [(level, do) for level, _, do in said(report, "long-term")] == [("fail", MEND)]
        await Rebuilds(store).start()
        await wait_until("the rebuild", whole)
        await wait_until("the archiver to be well", lambda: archiver.checks()[check] is None)
    assert (memory / aside).exists(), "what could not be read is kept"
    made.open()
    assert await made.contents() == before
    await made.aclose()


async def test_at_most_one_damaged_store_is_kept_and_the_rebuild_says_what_to_do(store: Store, tmp_path: Path) -> None:
    made = Archive(store, tmp_path)
    await made.archive(CATS[0], [("user", "my cat is called Mimi Solberg", "ada")])
    await made.aclose()
    (kept := tmp_path / "graph" / "graph.db.damaged").write_text("of an earlier time")
    spoil_graph(tmp_path)
    made.open()
    with pytest.raises(MemoryDamagedError, match=f"move or remove {kept}, and the rebuild goes on"):
        await made.rebuild()
    assert kept.read_text() == "of an earlier time"
    kept.unlink()
    assert (await made.rebuild()).failed == 0
    assert kept.exists()
    await made.aclose()
