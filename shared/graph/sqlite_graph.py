"""The store of the graph in a file: SQLite, one connection that writes and one that reads."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pentad.shared.errors import MemoryDamagedError, MemoryNewerError, MemoryOutageError
from pentad.shared.graph import sqlite_reads as reads
from pentad.shared.graph import sqlite_schema as sql
from pentad.shared.graph import sqlite_writes as writes
from pentad.shared.graph.graph_limits import (
    check_anchors,
    check_edges,
    check_found,
    check_identifier,
    check_ids,
    check_links,
    check_nodes,
    check_time,
    check_user,
)
from pentad.shared.graph.knowledge import BareEdge, EdgeType, GraphCondition, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.graph.merging import normal_name
from pentad.shared.graph.sqlite_file import GraphFileLock, SqliteThread
from pentad.shared.owners import Owner
from pentad.shared.private_files import sync_folder

_CHECK_TIMEOUT_S = 600.0
"""Seconds that checking the file may take."""
_DAMAGED_SUFFIX = ".damaged"
"""Suffix of a file that could not be read and is kept for a person."""
_COUNTING_OBJECTS = 3
"""Number of objects that `HAS_COUNTS` looks for: the table and the triggers."""


class SqliteGraph:
    """The port `Graph` without a server. Nothing is opened before the first use.

    Several processes may have it open; they write in turns. A killed process loses no write that was awaited; a power
    cut may lose the last moments, but never leaves half of a write.
    """

    def __init__(self, file: Path, timeout_s: float = 10.0) -> None:
        self._writing = SqliteThread(file, "graph-writing", timeout_s)
        self._reading = SqliteThread(file, "graph-reading", timeout_s)
        self._checking = SqliteThread(file, "graph-checking", _CHECK_TIMEOUT_S)
        self._file, self._is_prepared, self._is_moving = file, False, False
        self._lock = GraphFileLock(file)

    async def open(self) -> None:
        """Lock the file for this archiver. Raises ``MemoryTakenError`` while another has it: try again later."""
        self._lock.acquire()

    async def prepare(self) -> None:
        if not self._is_prepared and not self._is_moving:
            await self._writing.do(self._make)
            self._is_prepared = True
        if self._is_moving:
            raise MemoryOutageError(f"the graph in {self._file} is being set aside: try again later")

    async def look(self) -> None:
        """Check whether it can be read and written, from time to time. Raises ``MemoryOutageError``."""
        await self.prepare()
        self._writing.check_room()

    @property
    def place(self) -> str:
        """Path of the file, for messages."""
        return str(self._file)

    async def condition(self) -> GraphCondition:
        """Return how much was written and how much exists. Raises ``MemoryOutageError``."""
        await self.prepare()
        return await self._reading.do(reads.condition)

    async def mistakes(self) -> list[str]:
        """Read the whole file and return what is wrong with it; empty when nothing is. Raises ``MemoryOutageError``."""
        await self.prepare()
        return await self._checking.do(reads.mistakes)

    async def set_aside(self) -> str:
        """Rename the file, which cannot be read; return its new name. The next use begins an empty one.

        Raises ``MemoryDamagedError`` while one that was set aside earlier is there.
        """
        self._is_moving = True
        try:
            for thread in (self._reading, self._checking):
                await thread.disconnect(lambda: None)
            return await self._writing.disconnect(self._renamed)
        except OSError as error:
            raise MemoryOutageError(f"the graph in {self._file} cannot be set aside: {error}") from None
        finally:
            self._is_prepared = self._is_moving = False

    def _renamed(self) -> str:
        """Rename the file after its log: an empty file beside the log of the damaged one would be filled from it."""
        aside = f"{self._file}{_DAMAGED_SUFFIX}"
        if Path(aside).exists():
            raise MemoryDamagedError(
                f"the graph in {self._file} cannot be read, and {aside}, which was set aside earlier, is kept: move or "
                f"remove {aside}, and the rebuild goes on"
            )
        for end in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                Path(f"{self._file}{end}").replace(f"{aside}{end}")
        sync_folder(str(self._file.parent))
        return aside

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        check_nodes(nodes)
        await self._write(lambda wire: writes.put_nodes(wire, nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        check_edges(edges)
        await self._write(lambda wire: writes.put_edges(wire, edges))

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        check_ids(ids)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.nodes_by(wire, owner, "id", ids))

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        check_ids(ids)
        check_found(limit)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.edges_at(wire, owner, ids, limit))

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        check_links(ids, limit, as_of)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.links_at(wire, owner, ids, limit, types, as_of))

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        check_links(ids, limit, as_of)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.between(wire, owner, ids, limit, types, as_of))

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        wanted = [normal_name(name) for name in names]
        check_ids([name for name in wanted if name])
        await self.prepare()
        return await self._reading.do(lambda wire: reads.nodes_by(wire, owner, "name", wanted))

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        check_ids(ids)
        check_time(at)
        await self._write(lambda wire: writes.end_nodes(wire, owner, ids, at))

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        check_ids(ids)
        await self._write(lambda wire: writes.remove_nodes(wire, owner, ids))

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        check_identifier(tenant)
        check_identifier(task)
        check_anchors(anchors)
        await self._write(lambda wire: writes.retain(wire, tenant, task, anchors))

    async def forget_task(self, tenant: str, task: str) -> None:
        check_identifier(tenant)
        check_identifier(task)
        await self._write(lambda wire: writes.retain(wire, tenant, task, ()))

    async def forget_user(self, tenant: str, user: str) -> None:
        check_identifier(tenant)
        check_user(user)
        await self._write(lambda wire: writes.remove_user(wire, tenant, user))

    async def forget_tenant(self, tenant: str) -> None:
        check_identifier(tenant)
        await self._write(lambda wire: writes.remove_tenant(wire, tenant))

    async def tally(self, tenant: str) -> Tally:
        check_identifier(tenant)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.tally(wire, tenant))

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        check_identifier(tenant)
        check_found(limit)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.node_page(wire, tenant, limit, after))

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        check_identifier(tenant)
        check_found(limit)
        await self.prepare()
        return await self._reading.do(lambda wire: reads.edge_page(wire, tenant, limit, after))

    async def aclose(self) -> None:
        """Finish pending work, close the file and release the lock."""
        await self._reading.aclose()
        await self._checking.aclose()
        await self._writing.aclose()
        self._lock.release()

    async def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        await self.prepare()
        await self._writing.do(lambda wire: _transaction(wire, work))

    def _make(self, wire: sqlite3.Connection) -> None:
        version = wire.execute("PRAGMA user_version").fetchone()[0]
        if version > sql.VERSION:
            raise MemoryNewerError(f"the graph in {self._file} was written by a newer version of Pentad: use that one")
        if version < sql.VERSION:
            wire.executescript(f"BEGIN IMMEDIATE; {sql.TABLES}; PRAGMA user_version = {sql.VERSION}; COMMIT;")
        if any(_missing_columns(wire, table) for table in sql.ADDED):
            _transaction(wire, _add_columns)
        if wire.execute(sql.HAS_COUNTS).fetchone()[0] < _COUNTING_OBJECTS:
            wire.executescript(f"BEGIN IMMEDIATE; {sql.COUNTS}; COMMIT;")


def _add_columns(wire: sqlite3.Connection) -> None:
    """Add missing columns, except those that another process has added meanwhile."""
    for table in sql.ADDED:
        for column in _missing_columns(wire, table):
            wire.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def _missing_columns(wire: sqlite3.Connection, table: str) -> list[str]:
    there = {name for (name,) in wire.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    return [column for column in sql.ADDED[table] if column.split()[0] not in there]


def _transaction(wire: sqlite3.Connection, work: Callable[[sqlite3.Connection], None]) -> None:
    """Run work in a transaction: all of it is written or nothing."""
    wire.execute("BEGIN IMMEDIATE")
    try:
        work(wire)
        wire.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            wire.execute("ROLLBACK")
        raise
