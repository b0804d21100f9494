"""The disk under the embedded memory is full for a while: that is an outage, and nothing is lost or given up."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pentad.contracts.commands import EraseCommand
from pentad.contracts.streams import DEAD, ERASE
from pentad.shared.errors import DamagedError, MemoryOutageError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import ERASED_TTL_S, bell
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.stores import vectors_of
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.selection import Selection
from tests.integration.graph.test_sqlite_graph import OURS
from tests.integration.memory.remembered import TASK, texts
from tests.integration.memory.test_archiver_memory import ended, found, running, settings_of
from tests.support.graph_maker import node
from tests.support.point_maker import ADA, point
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.waiting import wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, 300) as made:
        yield made


@pytest.fixture
async def vectors(disk: SmallDisk) -> AsyncIterator[ChildVectors]:
    made = ChildVectors(disk.path / "vectors")
    await made.prepare("memory", 3)
    await made.upsert("memory", [point("a")])
    yield made
    await made.aclose()


async def test_a_full_disk_is_an_outage_of_the_vectors_also_for_a_process_that_opens_them(
    disk: SmallDisk, vectors: ChildVectors
) -> None:
    """What cannot be opened for want of room is not damaged."""
    disk.fill()
    with pytest.raises(MemoryOutageError, match="is full"):
        await vectors.upsert("memory", [point("b")])
    child = vectors.process_id
    assert child is not None
    os.kill(child, signal.SIGKILL)
    await wait_until("the child's end to be noticed", lambda: vectors.process_id is None)

    async def refused() -> bool:
        with pytest.raises(MemoryOutageError) as refused:
            await vectors.delete("memory", Selection(ADA))
        assert not isinstance(refused.value, DamagedError), refused.value
        return "is full" in str(refused.value)

    await wait_until("the disk to be named", refused)
    disk.free()

    async def written() -> bool:
        with suppress(MemoryOutageError):
            await vectors.upsert("memory", [point("b")])
            return True
        return False

    await wait_until("it to be written", written)
    assert await vectors.count("memory", Selection(ADA)) == 2


async def test_a_full_disk_is_an_outage_of_the_graph(disk: SmallDisk) -> None:
    graph = SqliteGraph(disk.path / "graph" / "graph.db")
    await graph.look()
    await graph.upsert_nodes([node("a", OURS)])
    disk.fill()
    with pytest.raises(MemoryOutageError, match="is full"):
        await graph.look()

    async def write_on() -> None:
        for number in range(1000):  # SQLite may still have room in its own files
            await graph.upsert_nodes([node(f"n{number}-{other}", OURS) for other in range(64)])

    with pytest.raises(MemoryOutageError) as refused:
        await write_on()
    assert not isinstance(refused.value, DamagedError)
    disk.free()
    await graph.look()
    await graph.upsert_nodes([node("b", OURS)])
    assert {each.id for each in await graph.node_page(OURS.tenant, 1000)} >= {node("b", OURS).id}
    await graph.aclose()


def memory_processes() -> list[int]:
    """Those that this process has started to have an embedded memory open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
            if ours and b"store_child" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


async def test_what_is_accepted_while_the_disk_is_full_is_done_when_it_is_not_and_readiness_says_why_it_waits(
    store: Store, tmp_path: Path, disk: SmallDisk
) -> None:
    """An accepted erasure became a dead letter in eight seconds and was never done, and readiness was 200."""
    settings = settings_of(store.url, disk.path)
    vectors = vectors_of(settings, store)
    async with running(settings) as archiver:
        await ended(store)
        await found(vectors)
        disk.fill()
        [child] = memory_processes()
        os.kill(
            child, signal.SIGKILL
        )  # as the system does with who writes to a map without room: the next one opens it
        asked = EraseCommand(kind="task", tenant_id=TASK.tenant, name=TASK.task).to_json()
        mark: list[Argument] = ["0-0", "", ERASED_TTL_S, asked, "s1", TASK.tenant]
        await store.run("erase_mark", [TASK.erased, ERASE.key(0), TASK.wake, bell(0)], mark)

        def told() -> bool:
            return "is full" in (archiver.checks()["archiving"] or "")

        await wait_until("readiness to say that the erasure waits, and why", told)
        disk.free()

        async def erased() -> bool:
            with suppress(MemoryOutageError):
                return not await texts(vectors) and not await store.call("EXISTS", TASK.header)
            return False

        await wait_until("the task to be erased", erased)
        await wait_until("all to be well", lambda: not any(archiver.checks().values()))
        assert await store.call("XLEN", DEAD.key(0)) == 0
    await vectors.aclose()
