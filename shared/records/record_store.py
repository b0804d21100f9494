"""The record store: finished tasks as JSON documents under an fsspec URL (a folder, S3, GCS).

Several writers may hold one task, the slower with a shorter transcript: it must not undo what the other wrote. A file
is replaced under a lock. Objects have neither locks nor, everywhere, conditional writes, so each is written under its
own length and the longest counts (docs/decisions/0008).
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from pentad.contracts.ids import is_identifier
from pentad.contracts.records import TaskRecord
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.private_files import make_folder, open_private, sync_folder
from pentad.shared.records import by_time, forgotten
from pentad.shared.storage_url import StorageUrl, is_local

log = logging.getLogger(__name__)
T = TypeVar("T")

_MAX_LISTINGS = 3
"""How often a list of versions is read again, because a longer one has just replaced what it named."""
_LEFT_S = 3600.0
"""A half-written file that was not touched for so long was left by a writer that was killed."""


class Records:
    """Reads and writes whole task records. Writing one again replaces it, unless the one there knows more.

    Nothing is opened before the first use. Raises ``SettingsError`` for a kind of store that is not known.
    """

    def __init__(self, url: str) -> None:
        self._place = StorageUrl("PENTAD_RECORDS_URL", url)
        self._swept: set[str] = set()
        """Folders from which this process has removed what killed writers left."""

    async def write(self, record: TaskRecord) -> None:
        """Keep a record. Raises ``OutageError`` when the store does not take it, ``ValueError`` for names of no id."""
        folder = _folder(record.tenant_id, record.task.task_id)
        await self._try(lambda fs, root: self._keep(fs, f"{root}/{folder}", record))

    async def read(self, tenant: str, task: str) -> TaskRecord | None:
        """A task's record, or None.

        Raises ``OutageError`` when the store does not answer, ``DamagedError`` when nobody can read what it has.
        """
        folder = _folder(tenant, task)
        data = await self._try(lambda fs, root: _load(fs, f"{root}/{folder}", task))
        if data is None:
            return None
        try:
            return TaskRecord.model_validate_json(data)
        except ValidationError as error:
            raise DamagedError(f"the record of task {task} cannot be read: {_why(data, error)}") from None

    async def enter(self, record: TaskRecord) -> bool:
        """Let lists find a record that is kept, from now on; returns whether its time can be listed.

        Behind the record: so nothing is entered that has none, and who removes a record knows what is entered. Raises
        ``OutageError``, and ``ValueError`` for names of no id.
        """
        folder, places = _folder(record.tenant_id, record.task.task_id), by_time.places_of(record)
        if places:
            await self._try(lambda fs, root: _enter(fs, f"{root}/{folder}", places))
        return bool(places)

    async def remove(self, tenant: str, task: str, entered: TaskRecord | None = None) -> None:
        """Remove a task's record; one that is not there is removed already. Lists find it no more, and what was
        forgotten of it is noted no more.

        ``entered``: what the caller has entered of it, maybe behind somebody else's removal. Raises ``OutageError``.
        """
        await self._try(lambda fs, root: _remove(fs, f"{root}/{tenant}", task, entered))

    async def tenants(self) -> list[str]:
        """Who has records. Raises ``OutageError``."""
        found = await self._try(by_time.names_in)
        return sorted(name for name in found if is_identifier(name))

    async def names(self, tenant: str) -> list[str]:
        """The tasks of a tenant that have records. Raises ``OutageError``."""
        return await self._try(lambda fs, root: _names(fs, f"{root}/{tenant}"))

    async def days(self, tenant: str) -> list[int]:
        """The days on which tasks began that were entered, in ms, the last first. Raises ``OutageError``."""
        return await self._try(lambda fs, root: by_time.days(fs, f"{root}/{tenant}"))

    async def hours(self, tenant: str, day: int) -> list[int]:
        """The hours of such a day, in ms, the last first. Raises ``OutageError``."""
        return await self._try(lambda fs, root: by_time.hours(fs, f"{root}/{tenant}", day))

    async def began_in(
        self, tenant: str, hour: int, before: by_time.Recorded | None = None, most: int = 1_000
    ) -> list[by_time.Recorded]:
        """Return the newest tasks of an hour behind ``before``, the newest first, at most ``most``.

        Raises ``OutageError``.
        """
        return await self._try(
            lambda fs, root: by_time.of_hour(fs, f"{root}/{tenant}", hour, before, most, local=is_local(fs))
        )

    async def of_session(self, tenant: str, session: str) -> list[by_time.Recorded]:
        """The tasks of a session that were entered, in no order; seldom one of another. Raises ``OutageError``."""
        return await self._try(lambda fs, root: by_time.of_session(fs, f"{root}/{tenant}", session))

    async def naming(self, tenant: str, tasks: Sequence[str], words: str) -> dict[str, TaskRecord | None]:
        """The records of these tasks in whose JSON these words stand; None for one that nobody can read.

        Raises ``OutageError``.
        """
        return await self._try(lambda fs, root: _naming(fs, f"{root}/{tenant}", tasks, words.encode()))

    async def note_forgotten(self, tenant: str, task: str, notes: Mapping[str, bytes]) -> None:
        """Keep what is forgotten of a task, by name, as long as its record is kept.

        Raises ``OutageError``, and ``ValueError`` for names of no id.
        """
        folder = _folder(tenant, task)
        await self._try(lambda fs, root: forgotten.note(fs, f"{root}/{folder}", task, notes, local=is_local(fs)))

    async def forgotten_tasks(self, tenant: str) -> list[str]:
        """The tasks of a tenant of which something is forgotten. Raises ``OutageError``."""
        return await self._try(lambda fs, root: forgotten.noted_tasks(fs, f"{root}/{tenant}"))

    async def leave_forgotten(self, tenant: str, task: str) -> None:
        """Keep nothing more of what was forgotten of a task. Raises ``OutageError``."""
        folder = _folder(tenant, task)
        await self._try(lambda fs, root: forgotten.leave(fs, f"{root}/{folder}", task, local=is_local(fs)))

    async def forgotten(self, tenant: str, task: str) -> dict[str, bytes]:
        """The notes of a task by `note_forgotten`. Raises ``OutageError``, and ``ValueError`` for names of no id."""
        folder = _folder(tenant, task)
        return await self._try(lambda fs, root: forgotten.notes(fs, f"{root}/{folder}", task))

    def _keep(self, fs: Any, folder: str, record: TaskRecord) -> None:
        name = record.task.task_id
        if not is_local(fs):
            _put(fs, folder, name, record)
            return
        make_folder(folder)
        if folder not in self._swept:
            self._swept.add(folder)
            _sweep(folder)
        _replace(f"{folder}/{name}.json", record)

    async def _try(self, work: Callable[[Any, str], T]) -> T:
        try:
            return await asyncio.to_thread(lambda: work(*self._place.open()))
        except Exception as error:
            raise OutageError(f"the record store {self._place.url} is unavailable: {error}") from error


def _why(data: bytes, error: ValidationError) -> str:
    """Say why a record cannot be read."""
    if not data:
        return "it is empty"
    return "a newer version wrote it" if any(e["loc"] == ("version",) for e in error.errors()) else "it is damaged"


def _folder(tenant: str, task: str) -> str:
    """Where a tenant's records are. What is no id could name a file anywhere."""
    if not (is_identifier(tenant) and is_identifier(task)):
        raise ValueError(f"no record can have the name {tenant[:200]!r}/{task[:200]!r}")
    return tenant


def _load(fs: Any, folder: str, name: str) -> bytes | None:
    """The record's text: the longest of an object's versions, else the one document of this name."""
    if not is_local(fs):
        for _ in range(_MAX_LISTINGS):
            versions = _versions(fs, f"{folder}/{name}")
            if not versions:
                break
            with contextlib.suppress(FileNotFoundError):
                return bytes(fs.cat_file(_version(folder, name, versions[-1])))
    try:
        return bytes(fs.cat_file(f"{folder}/{name}.json"))
    except FileNotFoundError:
        return None


def _names(fs: Any, folder: str) -> list[str]:
    names = {name.removesuffix(".part").removesuffix(".json") for name in by_time.names_in(fs, folder)}
    return sorted(name for name in names if is_identifier(name))


def _naming(fs: Any, folder: str, tasks: Sequence[str], words: bytes) -> dict[str, TaskRecord | None]:
    found: dict[str, TaskRecord | None] = {}
    for task in tasks:
        data = _load(fs, folder, task)
        if data is not None and words in data:
            try:
                found[task] = TaskRecord.model_validate_json(data)
            except ValidationError:
                found[task] = None
    return found


def _remove(fs: Any, folder: str, name: str, entered: TaskRecord | None) -> None:
    """All of a task, also what a writer that was killed has left half written.

    The record goes last: it says where the task is entered.
    """
    for place in _entered(fs, folder, name) | set(by_time.places_of(entered) if entered else ()):
        by_time.leave(fs, folder, place, local=is_local(fs))
    single, versions = f"{folder}/{name}.json", []
    if not is_local(fs):
        versions = [_version(folder, name, version) for version in _versions(fs, f"{folder}/{name}")]
    forgotten.leave(fs, folder, name, local=is_local(fs))
    for path in (*versions, single, f"{single}.part"):
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)
    if is_local(fs) and os.path.isdir(folder):
        sync_folder(folder)


def _enter(fs: Any, folder: str, places: Sequence[str]) -> None:
    for place in places:
        by_time.enter(fs, folder, place, local=is_local(fs))


def _entered(fs: Any, folder: str, name: str) -> set[str]:
    """Where lists find a task by its record, if it has one."""
    data = _load(fs, folder, name)
    if data is None:
        return set()
    try:
        return set(by_time.places_of(TaskRecord.model_validate_json(data)))
    except ValidationError:
        return set(by_time.places_named(fs, folder, name))


# Objects


def _put(fs: Any, folder: str, name: str, record: TaskRecord) -> None:
    """Write an object of its own, then remove the shorter ones: whoever is late removes its own."""
    length, single = len(record.messages), f"{folder}/{name}.json"
    if length < max(_versions(fs, f"{folder}/{name}"), default=0):
        return
    if any(_has_longer(fs.cat_file, path, record) for path in (single, _version(folder, name, length))):
        return
    fs.pipe_file(_version(folder, name, length), record.to_json())
    shorter = _versions(fs, f"{folder}/{name}")[:-1]
    for path in (single, *(_version(folder, name, version) for version in shorter)):
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)


def _version(folder: str, name: str, length: int) -> str:
    return f"{folder}/{name}/{length:09d}.json"


def _versions(fs: Any, place: str) -> list[int]:
    """The lengths under which a record is there, the longest last."""
    fs.invalidate_cache(place)  # others write too
    try:
        names = [str(path).rpartition("/")[2].removesuffix(".json") for path in fs.ls(place, detail=False)]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _has_longer(read: Callable[[str], bytes], path: str, record: TaskRecord) -> bool:
    """Whether a longer one is there: transcripts only grow, so ours comes from a writer that was overtaken."""
    try:
        there = TaskRecord.model_validate_json(read(path))
    except FileNotFoundError:
        return False
    except ValidationError:
        log.warning("%s cannot be read and is written anew", path)
        return False
    return _known(there) > _known(record)


def _known(record: TaskRecord) -> tuple[int, int]:
    """The sort key of two records of a task: the one with the longer transcript counts, then the one with an answer."""
    extraction = record.extraction
    return len(record.messages), 0 if extraction is None else 1 if "problem" in extraction else 2


# Files


def _replace(path: str, record: TaskRecord) -> None:
    """Write beside, then move: a killed writer leaves no half record, and what it left is written over.

    Both are on the disk before anybody is told that the record is kept: its task leaves Redis then.
    """
    beside = f"{path}.part"
    with open(beside, "ab", opener=open_private) as part:
        _lock(part.fileno(), beside)
        if _has_longer(_read_file, path, record):
            os.unlink(beside)
            return
        part.truncate(0)
        part.write(record.to_json())
        part.flush()
        os.fsync(part.fileno())
        os.replace(beside, path)
        sync_folder(os.path.dirname(path))


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _sweep(folder: str) -> None:
    """Remove what writers that were killed have left, unless somebody writes it just now."""
    for entry in os.scandir(folder):
        if not entry.name.endswith(".json.part"):
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or being written
            if time.time() - entry.stat().st_mtime < _LEFT_S:
                continue
            with open(entry.path, "ab") as part:
                _lock(part.fileno(), entry.path)
                os.unlink(entry.path)


def _lock(handle: int, path: str) -> None:
    """Be the only one who writes this file, until it is closed. Raises ``OSError`` when somebody else does.

    Never waits: a writer may be paused for long, and only its own record is to be late then.
    """
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.path.samestat(os.fstat(handle), os.stat(path)):
        raise BlockingIOError(f"{path} was moved into its place by another writer just now")
