"""The folder of the embedded store of vectors: who has it open, its collections, its aliases.

    vectors/lock                     held while the store is open
    vectors/aliases.json             alias to name
    vectors/NAME/collection.json     the dimension
    vectors/NAME/shard/              qdrant-edge's own

A folder that ends in ``.part`` is a collection that was being made or removed. What ends in ``.damaged`` could not be
read, and was set aside by a rebuild: it is kept for a person, and nothing here reads it.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pentad.shared.errors import MemoryDamagedError, MemoryOutageError, MemoryTakenError
from pentad.shared.passing_failures import passes, want_of_room
from pentad.shared.private_files import sync_folder

ALIASES = "aliases.json"
_PARTIAL_SUFFIX, _DAMAGED_SUFFIX = ".part", ".damaged"


class EdgeFolder:
    """Reads and writes the folder's own files; it knows nothing of qdrant-edge."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """``lock`` is the open lock file of a parent process, as this process has inherited it."""
        self._path, self._lock = path, lock

    @property
    def lock(self) -> int | None:
        """Descriptor of the locked file, which a child may inherit; None while it is closed."""
        return self._lock

    def open(self) -> None:
        """Lock the folder. Raises ``MemoryTakenError`` while another process has it. Safe to call twice."""
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
        with contextlib.suppress(OSError):  # what is left of a collection takes room, and harms nobody
            for left in self._path.glob(f"*{_PARTIAL_SUFFIX}"):
                shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Release the lock, so that another process can have the folder. Safe to call twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def check_room(self) -> None:
        """Raise ``MemoryOutageError`` while the disk has no room for a write.

        qdrant-edge writes through memory maps: without room, that would end the process instead of failing.
        """
        with _outage_if_passing(self._path):
            wanting = want_of_room(self._path)
        if wanting is not None:
            raise MemoryOutageError(wanting)

    def names(self) -> list[str]:
        """Return the names of the collections."""
        with _outage_if_passing(self._path):
            made = [folder for folder in self._path.iterdir() if (folder / "collection.json").exists()]
        return sorted(folder.name for folder in made if _is_complete(folder))

    def parts(self) -> list[str]:
        """Return the parts that can be damaged, and set aside, separately: the aliases, and each collection."""
        with _outage_if_passing(self._path):
            folders = [folder.name for folder in self._path.iterdir() if folder.is_dir() and _is_complete(folder)]
        return [ALIASES, *sorted(folders)]

    def lacks_dimension(self, name: str) -> bool:
        """Whether a collection has a folder that does not say its dimension."""
        return (self._path / name).is_dir() and self.dimensions(name) is None

    def set_aside(self, part: str) -> str:
        """Rename a part, which no longer exists then; return its new name.

        At most one of each part is kept so: raises ``MemoryDamagedError`` while an earlier one is there.
        """
        there, aside = self._path / part, self._path / f"{part}{_DAMAGED_SUFFIX}"
        if aside.exists():
            raise MemoryDamagedError(
                f"{there} cannot be read, and {aside}, which was set aside earlier, is kept: move or remove {aside}, "
                "and the rebuild goes on"
            )
        with _outage_if_passing(there):
            there.rename(aside)
            sync_folder(str(self._path))
        return str(aside)

    def dimensions(self, name: str) -> int | None:
        """Return the dimension of a collection; None when there is no such collection."""
        said = self._path / name / "collection.json"
        try:
            with _outage_if_passing(said):
                return int(json.loads(said.read_text())["dimensions"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MemoryDamagedError(f"{said} cannot be read: {error}") from None

    def shard(self, name: str) -> Path:
        """Return the folder with the collection's points."""
        return self._path / name / "shard"

    def begin(self, name: str, dimensions: int) -> Path:
        """Return a folder to make a shard in; the collection is not visible before `finish`."""
        part = self._path / f"{name}{_PARTIAL_SUFFIX}"
        with _outage_if_passing(part):
            shutil.rmtree(part, ignore_errors=True)
            (part / "shard").mkdir(parents=True)
            _write(part / "collection.json", {"dimensions": dimensions})
        return part / "shard"

    def finish(self, name: str) -> None:
        """Make the collection visible."""
        with _outage_if_passing(self._path):
            (self._path / f"{name}{_PARTIAL_SUFFIX}").rename(self._path / name)
            sync_folder(str(self._path))

    def remove(self, name: str) -> None:
        """Remove the collection and its aliases."""
        self._write_aliases({a: n for a, n in self.aliases().items() if n != name})
        part = self._path / f"{name}{_PARTIAL_SUFFIX}"
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError), _outage_if_passing(part):
            (self._path / name).rename(part)
        shutil.rmtree(part, ignore_errors=True)

    def aliases(self) -> dict[str, str]:
        """Return the name that each alias stands for."""
        said = self._path / ALIASES
        try:
            with _outage_if_passing(said):
                return {str(alias): str(name) for alias, name in json.loads(said.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise MemoryDamagedError(f"{said} cannot be read: {error}") from None

    def switch(self, alias: str, name: str) -> None:
        """Point an alias to a name, whatever it pointed to before."""
        self._write_aliases({**self.aliases(), alias: name})

    def _write_aliases(self, aliases: dict[str, str]) -> None:
        fresh = self._path / "aliases.json.new"
        with _outage_if_passing(fresh):
            _write(fresh, aliases)
            fresh.replace(self._path / ALIASES)
            sync_folder(str(self._path))


def _write(file: Path, said: object) -> None:
    """Write and sync a file before it is used: half a file would be damage."""
    with file.open("w") as written:
        json.dump(said, written)
        written.flush()
        os.fsync(written.fileno())


@contextlib.contextmanager
def _outage_if_passing(place: Path) -> Iterator[None]:
    """Turn errors that can pass, such as a full disk, into ``MemoryOutageError``; raise others as they are."""
    try:
        yield
    except OSError as error:
        if not passes(error):
            raise
        raise MemoryOutageError(f"the memory at {place} cannot be used: {error}") from None


def _is_complete(folder: Path) -> bool:
    return not folder.name.endswith((_PARTIAL_SUFFIX, _DAMAGED_SUFFIX))
