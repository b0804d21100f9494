"""The folder of the embedded Redis: its data, the lock on it, its log, and where the last server was to be found.

Who has the data open is told by a lock that the server process itself holds: it is taken before the server starts,
handed down to it (and to its rewriting forks), and ends with the last of them, however they end.
"""

import asyncio
import fcntl
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pentad.shared.errors import SettingsError

HOST = "127.0.0.1"
_PASSWORD = re.compile("[A-Za-z0-9_-]{20,100}")


@dataclass(frozen=True, slots=True)
class KnownServer:
    """The server that an earlier run has noted. ``pid`` is 0 when the run ended before the server had one."""

    port: int = 0
    pid: int = 0
    password: str = ""
    """Empty: of a version that gave none."""

    @property
    def url(self) -> str:
        """The address to connect to."""
        login = f":{self.password}@" if self.password else ""
        return f"redis://{login}{HOST}:{self.port}/0"


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
            password = str(said.get("password", ""))
            return KnownServer(int(said["port"]), int(said["pid"]), password if _PASSWORD.fullmatch(password) else "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return KnownServer()

    def note(self, known: KnownServer) -> None:
        """Write down the server of now."""
        write_atomically(self._known, json.dumps(asdict(known)))

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
    """Replace a small file that only this user may read; a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    fresh.replace(path)
