"""The folder of the embedded Redis: its data, the lock on it, its log, and where the last server was to be found.

Who has the data open is told by a lock that the server process itself holds: it is taken before the server starts,
handed down to it (and to its rewriting forks), and ends with the last of them, however they end.
"""

import asyncio
import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from pentad.shared.errors import SettingsError


@dataclass(frozen=True, slots=True)
class KnownServer:
    """What an earlier run wrote down of its server. ``pid`` is 0 when it did not get that far."""

    port: int = 0
    pid: int = 0


class Folder:
    """The server's folder: the data, the lock on it, the log, and where the last server was to be found."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # as the server says it in CONFIG GET dir
        self.log = self.path / "redis.log"
        self._known = self.path / "server.json"

    def known(self) -> KnownServer:
        """The last server that was started here; all zero when that is not known."""
        try:
            said = json.loads(self._known.read_text())
            return KnownServer(int(said["port"]), int(said["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return KnownServer()

    def note(self, known: KnownServer) -> None:
        """Write down the server of now."""
        write_atomically(self._known, json.dumps({"port": known.port, "pid": known.pid}))

    def lock(self) -> int | None:
        """A descriptor with the lock on the data, or None while a server has it."""
        fd = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            raise SettingsError(
                f"{self.path} cannot be locked ({error}): PENTAD_DATA_DIR must be on a local disk"
            ) from None
        return fd

    async def lock_within(self, seconds: float) -> int | None:
        """The lock as soon as it can be had; None when time is up."""
        limit = time.monotonic() + seconds
        while (fd := self.lock()) is None and time.monotonic() < limit:
            await asyncio.sleep(0.01)
        return fd

    def last_words(self) -> str:
        """The end of the server's log, on one line."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "it left no log"
        return " / ".join(line.strip() for line in lines[-3:] if line.strip()) or "its log is empty"


def write_atomically(path: Path, text: str) -> None:
    """Replace a small file; a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)
