"""The graph in a file: what was awaited outlives the process, and several processes take turns."""

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from pentad.shared.errors import DamagedError, MemoryOutageError
from pentad.shared.graph import sqlite_file, sqlite_reads
from pentad.shared.graph.knowledge import Tally
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.owners import Owner
from tests.support.graph_maker import edge, node
from tests.support.processes.system import ROOT

OURS = Owner("acme")
WRITES = """
import asyncio, os, signal, sys
from pathlib import Path
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.owners import Owner
from tests.support.graph_maker import edge, node

async def write():
    graph = SqliteGraph(Path(sys.argv[1]))
    for n in range(50):
        await graph.upsert_nodes([node(f"{sys.argv[2]}-{n}-{k}", Owner("acme")) for k in range(4)])
        await graph.upsert_edges([edge(f"{sys.argv[2]}-{n}-0", f"{sys.argv[2]}-{n}-1", Owner("acme"))])
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(write())
"""


async def test_what_was_awaited_is_there_after_writers_were_killed(tmp_path: Path) -> None:
    file = tmp_path / "graph.db"
    command = sys.executable, "-c", WRITES, str(file)
    writers = [await asyncio.create_subprocess_exec(*command, name, cwd=ROOT) for name in ("one", "other")]
    assert [await writer.wait() for writer in writers] == [-9, -9]
    graph = SqliteGraph(file)
    assert await graph.tally("acme") == Tally(400, 100)
    await graph.aclose()


async def test_a_new_file_that_another_is_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite refuses the switch to WAL at once while another writes; two archivers may start together."""
    other = sqlite3.connect(tmp_path / "graph.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    graph = SqliteGraph(tmp_path / "graph.db")
    opening = asyncio.create_task(graph.prepare())
    await asyncio.wait([opening], timeout=0.1)
    assert not opening.done()
    other.execute("COMMIT")
    other.close()
    await opening
    assert await graph.tally("acme") == Tally(0, 0)
    await graph.aclose()


async def test_a_writer_that_another_keeps_waiting_is_told_and_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_BUSY_S", 0.05)
    graph = SqliteGraph(tmp_path / "graph.db")
    await graph.prepare()
    other = sqlite3.connect(tmp_path / "graph.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MemoryOutageError, match="locked"):
        await graph.upsert_nodes([node("a", OURS)])
    assert await graph.tally("acme") == Tally(0, 0)
    other.execute("ROLLBACK")
    other.close()
    await graph.upsert_nodes([node("a", OURS)])
    assert await graph.tally("acme") == Tally(1, 0)
    await graph.aclose()


async def test_a_call_that_takes_too_long_is_interrupted_and_the_next_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = SqliteGraph(tmp_path / "graph.db", timeout_s=0.2)
    await graph.upsert_nodes([node("a", OURS)])
    ended = threading.Event()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"

    def slow(wire: sqlite3.Connection, tenant: str) -> Tally:
        try:
            return Tally(wire.execute(endless).fetchone()[0], 0)
        finally:
            ended.set()

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_reads, "tally", slow)
        with pytest.raises(MemoryOutageError, match=r"did not answer in 0\.2 s"):
            await graph.tally("acme")
    assert await asyncio.to_thread(ended.wait, 10)
    assert await graph.tally("acme") == Tally(1, 0)
    await graph.aclose()


async def test_a_file_that_is_no_graph_is_told(tmp_path: Path) -> None:
    (tmp_path / "graph.db").write_bytes(b"not a database at all" * 100)
    graph = SqliteGraph(tmp_path / "graph.db")
    with pytest.raises(DamagedError, match="cannot be read"):
        await graph.nodes(OURS, ["a"])
    await graph.aclose()


async def test_what_a_newer_version_wrote_is_left_alone(tmp_path: Path) -> None:
    graph = SqliteGraph(tmp_path / "graph.db")
    await graph.upsert_nodes([node("a", OURS), node("b", OURS)])
    await graph.upsert_edges([edge("a", "b", OURS)])
    await graph.aclose()
    wire = sqlite3.connect(tmp_path / "graph.db")
    wire.execute("PRAGMA user_version = 99")
    wire.close()
    graph = SqliteGraph(tmp_path / "graph.db")
    with pytest.raises(DamagedError, match="newer version"):
        await graph.nodes(OURS, ["a"])
    await graph.aclose()


async def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    graph = SqliteGraph(tmp_path / "file" / "graph.db")
    with pytest.raises(MemoryOutageError, match="cannot be opened"):
        await graph.prepare()
    await graph.aclose()
