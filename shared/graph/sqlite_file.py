"""The graph's SQLite file: a lock that says which process has it, and connections, each in a thread of its own."""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pentad.shared.errors import DamagedError, MemoryDamagedError, MemoryOutageError, MemoryTakenError, PentadError
from pentad.shared.passing_failures import want_of_room


class GraphFileLock:
    """The lock of the graph's file: one archiver has it. It ends with its process, however that ends.

    SQLite itself lets several processes write, but not from several machines.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises ``MemoryTakenError`` while another process has it. Safe to call twice."""
        if self._handle is not None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._file.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MemoryOutageError(f"the graph in {self._file} cannot be opened: {error}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise MemoryTakenError(
                f"the graph in {self._file} is used by another process ({error}): "
                "let that one do it, or set NEO4J_URI to a server that many can use"
            ) from None
        self._handle = handle

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


T = TypeVar("T")

_BUSY_S = 5.0
"""Seconds that a write waits for the write of another process."""
_MOST_WAITING = 256
_LOOK_S = 0.01
_NO_DATABASE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""SQLite's error codes for a damaged file; its other errors are about what was to be written."""
_SETTINGS = ("synchronous=NORMAL", "foreign_keys=ON", "cache_size=-32768")


class SqliteThread:
    """Runs one call after the other in a thread.

    ``timeout_s`` bounds each call, waiting included; a call that takes longer is interrupted.
    """

    def __init__(self, file: Path, name: str, timeout_s: float) -> None:
        self._file, self._timeout_s = file, timeout_s
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, name)
        self._wire: sqlite3.Connection | None = None
        self._at_work: object = None
        self._waiting = 0

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work in the thread. Raises ``MemoryOutageError``; ``MemoryDamagedError`` for a damaged file."""
        if self._thread is None:
            raise MemoryOutageError(f"the graph in {self._file} is closed")
        if self._waiting >= _MOST_WAITING:
            raise MemoryOutageError(f"{_MOST_WAITING} calls wait for the graph in {self._file}: try again later")
        mine = object()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._try(mine, work))
        except TimeoutError:
            if not limit.expired():
                raise
            self._interrupt(mine)
            raise MemoryOutageError(
                f"the graph in {self._file} did not answer in {self._timeout_s:g} s: try again later"
            ) from None
        finally:
            self._waiting -= 1

    def check_room(self) -> None:
        """Raise ``MemoryOutageError`` while the file's disk has no room."""
        try:
            wanting = want_of_room(self._file.parent)
        except OSError as error:
            raise MemoryOutageError(f"the graph in {self._file} cannot be used: {error}") from None
        if wanting is not None:
            raise MemoryOutageError(wanting)

    async def disconnect(self, then: Callable[[], T]) -> T:
        """Interrupt running work, close the file, and run ``then`` before anything opens it again."""
        if self._thread is None:
            raise MemoryOutageError(f"the graph in {self._file} is closed")
        if self._wire is not None:
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                self._wire.interrupt()

        def closed() -> T:
            with suppress(sqlite3.Error):  # of a damaged file, that what waits in its log cannot be put into it
                self._close()
            return then()

        return await asyncio.get_running_loop().run_in_executor(self._thread, closed)

    async def aclose(self) -> None:
        """Finish pending work and close the file. Safe to call twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    def _try(self, mine: object, work: Callable[[sqlite3.Connection], T]) -> T:
        self._at_work = mine
        try:
            return work(self._opened())
        except PentadError:
            raise
        except (sqlite3.OperationalError, MemoryError) as error:  # also of a disk that is full or read only
            raise MemoryOutageError(f"the graph in {self._file} fails: {error}; try again later") from None
        except sqlite3.DatabaseError as error:
            kind = MemoryDamagedError if error.sqlite_errorcode & 0xFF in _NO_DATABASE else DamagedError
            raise kind(f"the graph in {self._file} cannot be read: {error}") from None
        except OSError as error:
            raise MemoryOutageError(f"the graph in {self._file} cannot be opened: {error}") from None
        finally:
            self._at_work = None

    def _opened(self) -> sqlite3.Connection:
        """Return the connection. With WAL, readers and the writer do not wait for each other; commits are not synced
        singly."""
        if self._wire is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            wire = sqlite3.connect(self._file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                _write_ahead(wire)
                for setting in _SETTINGS:
                    wire.execute(f"PRAGMA {setting}")
            except BaseException:
                wire.close()
                raise
            self._wire = wire
        return self._wire

    def _interrupt(self, mine: object) -> None:
        """Interrupt this call where it is the one that runs."""
        wire = self._wire
        if wire is not None and self._at_work is mine:
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                wire.interrupt()

    def _close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def _write_ahead(wire: sqlite3.Connection) -> None:
    """Switch to WAL. When two processes open a new file, SQLite refuses one at once, despite its timeout."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            wire.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(_LOOK_S)
