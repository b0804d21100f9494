"""The folder of the embedded store of vectors: who has it open, its collections, its aliases.

    vectors/lock                     held while the store is open
    vectors/aliases.json             alias to name
    vectors/NAME/collection.json     the dimension
    vectors/NAME/shard/              qdrant-edge's own

A folder that ends in ``.part`` is a collection that was being made or removed.
"""

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from pentad.shared.errors import DamagedError, MemoryOutageError, MemoryTakenError

_PART = ".part"


class EdgeFolder:
    """Files alone; nothing here knows qdrant-edge."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """``lock``: of a parent that has it open, as this process has inherited it."""
        self._path, self._lock = path, lock

    @property
    def lock(self) -> int | None:
        """The open file that is locked, which a child may inherit; None while it is closed."""
        return self._lock

    def open(self) -> None:
        """Be the one process that uses it. Raises ``MemoryTakenError`` while another does. Safe to call twice."""
        if self._lock is not None:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MemoryOutageError(f"the memory in {self._path} cannot be opened: {error}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise MemoryTakenError(
                f"the memory in {self._path} is used by another process ({error}): "
                "let that one do it, or set QDRANT_URL to a server that many can use"
            ) from None
        self._lock = handle
        for left in self._path.glob(f"*{_PART}"):
            shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Let another process have it. Safe to call twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def names(self) -> list[str]:
        """Of the collections that are there."""
        return sorted(made.parent.name for made in self._path.glob("*/collection.json") if _whole(made.parent))

    def dimensions(self, name: str) -> int | None:
        """Of a collection; None when there is none."""
        said = self._path / name / "collection.json"
        try:
            return int(json.loads(said.read_text())["dimensions"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedError(f"{said} cannot be read: {error}") from None

    def shard(self, name: str) -> Path:
        """Where the collection's points are."""
        return self._path / name / "shard"

    def begin(self, name: str, dimensions: int) -> Path:
        """A place to make a shard in; nobody sees the collection before `finish`."""
        part = self._path / f"{name}{_PART}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        (part / "collection.json").write_text(json.dumps({"dimensions": dimensions}))
        return part / "shard"

    def finish(self, name: str) -> None:
        """The collection is there from now on."""
        (self._path / f"{name}{_PART}").rename(self._path / name)

    def remove(self, name: str) -> None:
        """The collection is gone from now on, with its aliases."""
        self._write_aliases({a: n for a, n in self.aliases().items() if n != name})
        part = self._path / f"{name}{_PART}"
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            (self._path / name).rename(part)
        shutil.rmtree(part, ignore_errors=True)

    def aliases(self) -> dict[str, str]:
        """Which name each alias means."""
        said = self._path / "aliases.json"
        try:
            return {str(alias): str(name) for alias, name in json.loads(said.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise DamagedError(f"{said} cannot be read: {error}") from None

    def switch(self, alias: str, name: str) -> None:
        """Let an alias mean a name, whatever it meant before."""
        self._write_aliases({**self.aliases(), alias: name})

    def _write_aliases(self, aliases: dict[str, str]) -> None:
        fresh = self._path / "aliases.json.new"
        with fresh.open("w") as file:
            json.dump(aliases, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path / "aliases.json")


def _whole(folder: Path) -> bool:
    return not folder.name.endswith(_PART)
