"""The embedded store: one process has it, and what was awaited outlives that process."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.errors import DamagedError, MemoryOutageError
from pentad.shared.vectors import edge_requests, edge_shards
from pentad.shared.vectors.edge_requests import MetConditions, PresentOwners
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, VectorQuery, Whose
from tests.support.point_maker import ACME, ADA, BOB, OTHER, near, point, point_id, saying
from tests.support.processes.system import ROOT
from tests.support.waiting import PATIENCE_S

WRITES = """
import asyncio, os, signal, sys
from pathlib import Path
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.support.point_maker import point

async def write():
    vectors = EdgeVectors(Path(sys.argv[1]))
    await vectors.prepare("memory", 3)
    await vectors.switch("now", "memory")
    for batch in range(5):
        await vectors.upsert("memory", [point(f"{batch}-{n}", text="cat") for n in range(100)])
    print("written", flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(write())
"""


REMOVES = """
import asyncio, os, signal, sys
from pathlib import Path
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, VectorQuery, Whose
from tests.support.point_maker import ADA, point

async def remove():
    vectors = EdgeVectors(Path(sys.argv[1]))
    await vectors.prepare("memory", 3)
    gone = [point(f"cat-{n}", text="cat", task="gone") for n in range(30)]
    await vectors.upsert("memory", [point("cat"), point("dog"), *gone])
    await vectors.delete("memory", Selection(ADA, tasks=("gone",)))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(remove())
"""


def writer(folder: Path, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITES, str(folder), then]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def remover(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", REMOVES, str(folder)], cwd=ROOT, text=True)


async def test_what_was_awaited_is_there_after_the_process_was_killed(tmp_path: Path) -> None:
    with writer(tmp_path, "die") as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert (said, process.returncode) == ("written\n", -9)
    vectors = EdgeVectors(tmp_path)
    assert await vectors.count("now", Selection(ADA)) == 500
    dense, sparse = await vectors.search(
        "now", [near((1, 0, 0), Selection(ADA), 1000), saying("cat", Selection(ADA), 1000)]
    )
    assert len(dense) == len(sparse) == 500
    await vectors.aclose()


async def test_words_that_were_removed_before_a_kill_do_not_count_after_it(tmp_path: Path) -> None:
    """The log has the removal, and the index of words what it had before."""
    with remover(tmp_path / "killed") as process:
        assert process.wait(PATIENCE_S) == -9
    found = []
    for folder in ("killed", "never"):
        vectors = EdgeVectors(tmp_path / folder)
        if folder == "never":
            await vectors.prepare("memory", 3)
            await vectors.upsert("memory", [point("cat"), point("dog")])
        found.append(await vectors.search("memory", [saying("cat dog", Selection(ADA))]))
        await vectors.aclose()
    assert found[0] == found[1]


async def test_an_opened_store_knows_whose_its_points_are(tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    await vectors.upsert("memory", [point("cat"), *(point(f"other-{n}", OTHER, "cat") for n in range(20))])
    asked = [saying("cat", Selection(ADA), 2)]
    found = await vectors.search("memory", asked)
    await vectors.aclose()
    vectors = EdgeVectors(tmp_path)
    assert await vectors.search("memory", asked) == found
    assert [hit.payload.owner for hit in found[0]] == [ADA]
    await vectors.aclose()


async def test_a_hit_of_others_is_left_out_though_no_condition_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the store ever be wrong about whose its points are, nobody is told of another's."""
    monkeypatch.setattr(PresentOwners, "meet", lambda *_: MetConditions(tenant=True, user=True))
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    await vectors.upsert("memory", [point("cat"), point("other", OTHER, "cat"), point("bob", BOB, "cat")])
    found = await vectors.search("memory", [saying("cat", Selection(ADA)), near((1, 0, 0), Selection(ADA))])
    assert [[hit.payload.owner for hit in hits] for hits in found] == [[ADA], [ADA]]
    await vectors.aclose()


async def test_who_may_see_no_point_is_not_searched_for_until_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session, and a new user, have no memories: most first messages of strangers cost no search."""
    made: list[int] = []
    real = edge_requests.query_batch

    def counted(queries: Sequence[VectorQuery], present: PresentOwners) -> Any:
        made.append(len(queries))
        return real(queries, present)

    monkeypatch.setattr(edge_requests, "query_batch", counted)
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    await vectors.upsert("memory", [point("bob", BOB, "cat"), point("other", OTHER, "cat")])
    asked: list[VectorQuery] = [saying("cat", Selection(ADA)), near((1, 0, 0), Selection(ADA))]
    assert (await vectors.search("memory", asked), made) == ([[], []], [])
    [found] = await vectors.search("memory", [saying("cat", Selection(ADA, Whose.ALL))])
    assert ([hit.payload.owner for hit in found], made) == ([BOB], [1]), "who sees all of a tenant sees Bob's"
    await vectors.upsert("memory", [point("shared", ACME, "cat")])
    found, _ = await vectors.search("memory", asked)
    assert ([hit.payload.owner for hit in found], made) == ([ACME], [1, 2])
    await vectors.aclose()


async def test_where_whose_points_there_are_cannot_be_told_each_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard without an index of its owners, which no version of ours has made."""
    monkeypatch.setattr(edge_requests, "indexes", list)
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    await vectors.upsert("memory", [point("cat"), *(point(f"other-{n}", OTHER, "cat") for n in range(20))])
    [found] = await vectors.search("memory", [saying("cat", Selection(ADA), 2)])
    assert [hit.payload.owner for hit in found] == [ADA]
    await vectors.aclose()


async def test_a_second_process_is_told_who_has_it_and_gets_it_afterwards(tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path)
    with writer(tmp_path, "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        with pytest.raises(MemoryOutageError, match=r"used by another process.*QDRANT_URL"):
            await vectors.open()
        with pytest.raises(MemoryOutageError, match="used by another process"):
            await vectors.count("now", Selection(ADA))
        process.communicate(timeout=PATIENCE_S)
    await vectors.open()
    assert await vectors.count("now", Selection(ADA)) == 500
    await vectors.aclose()


async def test_two_in_one_process_keep_apart_as_well(tmp_path: Path) -> None:
    first, second = EdgeVectors(tmp_path), EdgeVectors(tmp_path)
    await first.prepare("memory", 3)
    with pytest.raises(MemoryOutageError, match="another process"):
        await second.prepare("memory", 3)
    await first.aclose()
    await second.prepare("memory", 3)
    await second.aclose()


async def test_a_collection_that_was_half_made_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "memory.part" / "shard").mkdir(parents=True)
    vectors = EdgeVectors(tmp_path)
    assert await vectors.collections() == []
    await vectors.prepare("memory", 3)
    assert sorted(os.listdir(tmp_path)) == ["lock", "memory"]
    await vectors.aclose()


async def test_what_was_flushed_and_what_was_not_are_both_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_shards, "_MAX_UNFLUSHED_POINTS", 10)
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    for n in range(25):
        await vectors.upsert("memory", [point(str(n))])
    await vectors.delete("memory", Selection(ADA, ids=(point_id("3"),)))
    await vectors.aclose()
    again = EdgeVectors(tmp_path)
    assert await again.count("memory", Selection(ADA)) == 24
    await again.aclose()


@pytest.mark.parametrize(("name", "text"), [("aliases.json", "{"), ("memory/collection.json", "[]")])
async def test_a_damaged_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    vectors = EdgeVectors(tmp_path)
    await vectors.prepare("memory", 3)
    await vectors.switch("now", "memory")
    (tmp_path / name).write_text(text)
    with pytest.raises(DamagedError, match=name):
        await vectors.count("now", Selection(ADA))
    await vectors.aclose()


async def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path)
    (tmp_path / "memory" / "shard").mkdir(parents=True)
    (tmp_path / "memory" / "collection.json").write_text(json.dumps({"dimensions": 3}))
    with pytest.raises(DamagedError, match="collection memory"):
        await vectors.count("memory", Selection(ADA))
    await vectors.aclose()


async def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    vectors = EdgeVectors(tmp_path / "file" / "vectors")
    with pytest.raises(MemoryOutageError, match="cannot be opened"):
        await vectors.open()
    await vectors.aclose()


async def test_a_call_that_takes_too_long_or_a_queue_that_is_too_long_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = EdgeVectors(tmp_path, timeout_s=0.05)
    begun, go = threading.Event(), threading.Event()

    def slow(_: edge_shards.EdgeShards) -> None:
        begun.set()
        go.wait(10)

    monkeypatch.setattr(edge_shards.EdgeShards, "open", slow)
    with pytest.raises(MemoryOutageError, match=r"did not answer in 0\.05 s"):
        await vectors.open()
    assert begun.is_set()
    asked = await asyncio.gather(*(vectors.open() for _ in range(300)), return_exceptions=True)
    assert all(isinstance(error, MemoryOutageError) for error in asked)
    assert sum("256 calls wait" in str(error) for error in asked) == 44
    go.set()
    await vectors.aclose()
