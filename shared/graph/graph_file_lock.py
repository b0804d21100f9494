"""Who has the graph's file: a lock that ends with its process, however that ends."""

import fcntl
import os
from pathlib import Path

from pentad.shared.errors import MemoryOutageError, MemoryTakenError


class GraphFileLock:
    """SQLite itself lets several processes write, but not from several machines: one archiver has the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._handle: int | None = None

    def acquire(self) -> None:
        """Raises ``MemoryTakenError`` while another process has it. Safe to call twice."""
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
        """Let another process have it. Safe to call twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
