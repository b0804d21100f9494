"""The embedded store in a child process: it comes and goes, the folder stays ours, and no loop waits for it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, MemoryTakenError
from pentad.shared.memory import child_vectors
from pentad.shared.memory.child_protocol import ChildOrder, frame_of
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.remote_calls import POINTS_AT_ONCE
from pentad.shared.memory.store_child import ChildServing
from pentad.shared.vectors.edge_folder import EdgeFolder
from pentad.shared.vectors.selection import Selection
from tests.support.point_maker import ADA, near, point
from tests.support.processes.system import ROOT
from tests.support.waiting import wait_until

OWNS = """
import asyncio, sys
from pathlib import Path
from pentad.shared.memory.child_vectors import ChildVectors

async def own():
    vectors = ChildVectors(Path(sys.argv[1]))
    await vectors.prepare("memory", 3)
    print(vectors.process_id, flush=True)
    await asyncio.sleep(600)

asyncio.run(own())
"""


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncIterator[ChildVectors]:
    made = ChildVectors(tmp_path / "vectors")
    await made.prepare("memory", 3)
    yield made
    await made.aclose()


def is_running(process_id: int) -> bool:
    """A zombie is not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def killed(vectors: ChildVectors) -> None:
    """Kill the child, and wait until that is noticed."""
    process_id = vectors.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    await wait_until("the child's end to be noticed", lambda: vectors.process_id is None)


async def test_a_killed_child_loses_nothing_that_was_awaited_and_another_goes_on(vectors: ChildVectors) -> None:
    await vectors.upsert("memory", [point(str(n)) for n in range(100)])
    await killed(vectors)
    assert await vectors.count("memory", Selection(ADA)) == 100


async def test_a_search_waits_for_one_write_and_not_for_all_that_wait(vectors: ChildVectors) -> None:
    points = [point(str(n)) for n in range(POINTS_AT_ONCE)]
    writing = [asyncio.create_task(vectors.upsert("memory", points)) for _ in range(8)]
    await asyncio.sleep(0)  # all have begun
    assert await vectors.search("memory", [near((1, 0, 0), Selection(ADA))])
    assert sum(each.done() for each in writing) <= 2
    await asyncio.gather(*writing)


async def test_who_waits_for_a_child_that_ends_is_told_so(vectors: ChildVectors) -> None:
    process_id = vectors.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGSTOP)
    asking = [asyncio.create_task(vectors.count("memory", Selection(ADA))) for _ in range(3)]
    await asyncio.sleep(0)
    os.kill(process_id, signal.SIGKILL)
    for asked in asking:
        with pytest.raises(MemoryOutageError, match="has ended: it is started again"):
            await asked
    assert await vectors.count("memory", Selection(ADA)) == 0


async def test_children_that_keep_ending_are_started_later_and_later(vectors: ChildVectors) -> None:
    async def ends_soon() -> str:
        with suppress(MemoryOutageError):
            await vectors.count("memory", Selection(ADA))
            await killed(vectors)
        try:
            await vectors.count("memory", Selection(ADA))
        except MemoryOutageError as error:
            return str(error) if "keeps ending" in str(error) else ""
        return ""

    assert "it starts in" in await wait_until("a pause between two starts", ends_soon)

    async def there() -> bool:
        with suppress(MemoryOutageError):
            return await vectors.count("memory", Selection(ADA)) == 0
        return False

    await wait_until("the next child", there)


async def test_the_folder_is_ours_while_children_come_and_go(vectors: ChildVectors, tmp_path: Path) -> None:
    await killed(vectors)
    other = ChildVectors(tmp_path / "vectors")
    with pytest.raises(MemoryTakenError, match=r"used by another process.*QDRANT_URL"):
        await other.open()
    await vectors.aclose()
    await other.open()
    assert [each.name for each in await other.collections()] == ["memory"]
    await other.aclose()
    with pytest.raises(MemoryOutageError, match="is closed"):
        await other.count("memory", Selection(ADA))


async def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNS, str(tmp_path)]
    parent = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    await parent.wait()
    await wait_until("the child's end", lambda: not is_running(child))
    # A killed process counts as ended with its first thread; its files are closed by its last one.
    await wait_until("the release of the folder's lock", lambda: _can_be_opened(EdgeFolder(tmp_path)))


def _can_be_opened(folder: EdgeFolder) -> bool:
    try:
        folder.open()
    except MemoryTakenError:
        return False
    folder.close()
    return True


async def test_a_child_that_does_not_answer_holds_nobody_up_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_vectors, "_MAX_PENDING_CALLS", 3)
    vectors = ChildVectors(tmp_path, timeout_s=20)
    await vectors.prepare("memory", 3)
    first = vectors.process_id
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    vectors.timeout_s = 0.05
    asked = await asyncio.gather(*(vectors.count("memory", Selection(ADA)) for _ in range(5)), return_exceptions=True)
    assert sorted(str(error).partition(" the memory")[0][:13] for error in asked) == [
        "3 calls wait ", "3 calls wait ", *["the memory in"] * 3
    ]  # fmt: skip
    vectors.timeout_s = 0.0

    async def replaced() -> bool:
        with suppress(MemoryOutageError):
            await vectors.count("memory", Selection(ADA))
        return vectors.process_id != first

    await wait_until("the child to be given up", replaced)
    vectors.timeout_s = 20
    assert await vectors.count("memory", Selection(ADA)) == 0
    await vectors.aclose()


async def test_large_writes_go_in_parts_and_are_refused_as_a_whole(vectors: ChildVectors) -> None:
    many = [point(str(n)) for n in range(256)]
    await vectors.upsert("memory", many)
    assert await vectors.count("memory", Selection(ADA)) == 256
    with pytest.raises(MemoryRefusedError, match="has a vector of 1"):
        await vectors.upsert("memory", [point("x", dense=(1.0,))])
    await vectors.upsert("memory", [])
    with pytest.raises(MemoryRefusedError, match="no collection"):
        await vectors.upsert("unknown", [])


@pytest.fixture
def child(tmp_path: Path) -> Iterator[socket.socket]:
    """Our end of a connection to what a child runs, here in a thread."""
    ours, theirs = socket.socketpair()
    folder = EdgeFolder(tmp_path)
    folder.open()
    order = ChildOrder(str(tmp_path), folder.lock or 0, 0, 0, 0)
    serving = threading.Thread(target=ChildServing(theirs, order).serve)
    serving.start()
    ours.settimeout(30)
    yield ours
    ours.close()
    serving.join(30)
    theirs.close()
    assert not serving.is_alive()


def told(child: socket.socket) -> bytes:
    """The next answer."""
    length = int.from_bytes(child.recv(4, socket.MSG_WAITALL), "big")
    return child.recv(length, socket.MSG_WAITALL)


@pytest.mark.parametrize(
    "request_body",
    [b"", b"no json", b"7", b"[]", b'["count"]', b'["count",["memory"]]', b'["count",["memory",{"owner":{}}]]',
     b'["close",[]]', b'["__class__",[]]', b'["open",[]]', b'["rank",["memory",{}]]', b"[" * 100_000,
     b'["count",["../x",{"owner":{"tenant":"acme"}}]]', b'["scroll",["memory",{"owner":{"tenant":"a:b"}},1,null]]'],
)  # fmt: skip
def test_a_request_that_is_none_is_answered_and_the_next_is_served(child: socket.socket, request_body: bytes) -> None:
    child.sendall(frame_of(request_body) + frame_of(b'["collections",[]]'))
    assert told(child)[:1] == b"-"
    assert told(child) == b"+[]"


@pytest.mark.parametrize(
    "end", [b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\x09[", frame_of(b'["upsert",["memory",[]]]')]
)
def test_a_connection_that_ends_anywhere_ends_the_child(child: socket.socket, end: bytes) -> None:
    child.sendall(frame_of(b'["collections",[]]') + end)
    assert told(child) == b"+[]"


async def test_a_search_beside_a_writing_leaves_the_loop_free(vectors: ChildVectors) -> None:
    writing = [vectors.upsert("memory", [point(f"{n}-{m}") for m in range(64)]) for n in range(8)]
    searching = [vectors.search("memory", [near((1, 0, 0), Selection(ADA))]) for _ in range(8)]
    await asyncio.gather(*writing, *searching)
    assert await vectors.count("memory", Selection(ADA)) == 512
