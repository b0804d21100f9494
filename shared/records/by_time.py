"""Which tasks have records, by when they began: empty files, whose names say all that a list asks.

Below a tenant's records, where no task can be called as these folders are (docs/decisions/0034):
`_by_time/2026-11-23/14/001795443862123-task-0-…`, an hour is one listing; and so that a session's need no walk through
the years, `_by_session/0b1/0b12…-001795443862123-task-0-…`, which begins with a digest of the session.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from heapq import nlargest
from typing import Any

from pentad.contracts.ids import is_identifier, milliseconds, rfc3339
from pentad.contracts.records import TaskRecord
from pentad.shared.immutable import immutable
from pentad.shared.private_files import make_folder, open_private, sync_folder

BY_TIME, BY_SESSION = "_by_time", "_by_session"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_BUCKET = 3
"""Digits of a session's digest that name its folder: a tenant has 4096 at most, with 250 names for a million tasks."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_HOUR = re.compile(r"[01]\d|2[0-3]", re.ASCII)
_NAME = re.compile(r"(?:([0-9a-f]{16})-)?(\d{15})-(.+)", re.ASCII)


@immutable
class Recorded:
    """A task that has a record."""

    began: int
    """The time at which the task began, in ms since the epoch."""
    task: str

    @property
    def place(self) -> tuple[int, str]:
        """Where lists have the task: by its time, then by its id."""
        return self.began, self.task


def names_in(fs: Any, folder: str) -> list[str]:
    """The names in a folder, read anew; none when there is no such folder."""
    fs.invalidate_cache(folder)  # others write too
    try:
        return [str(path).rstrip("/").rpartition("/")[2] for path in fs.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def places_of(record: TaskRecord) -> list[str]:
    """The paths of a record's files, below its tenant's folder; none when it says no time that a list can have."""
    task = record.task
    try:
        began = milliseconds(task.created_at)
    except ValueError:
        return []
    if began < 0:
        return []
    name = f"{began:015d}-{task.task_id}"
    digest = _digest(task.session_id)
    return [f"{_hour(began)}/{name}", f"{_bucket(digest)}/{digest}-{name}"]


def days(fs: Any, tenant: str) -> list[int]:
    """The days on which tasks with records began, in ms, the last first. ``tenant``: its folder."""
    found = (_started(f"{name}T00") for name in names_in(fs, f"{tenant}/{BY_TIME}") if _DAY.fullmatch(name))
    return sorted((day for day in found if day is not None), reverse=True)


def hours(fs: Any, tenant: str, day: int) -> list[int]:
    """The hours of such a day, in ms, the last first."""
    there = names_in(fs, f"{tenant}/{BY_TIME}/{rfc3339(day)[:10]}")
    return sorted((day + int(name) * HOUR_MS for name in there if _HOUR.fullmatch(name)), reverse=True)


def of_hour(fs: Any, tenant: str, hour: int, before: Recorded | None, most: int, *, local: bool) -> list[Recorded]:
    """Return the newest tasks that began in this hour, at most ``most``, the newest first.

    ``before``: only tasks that come behind this one in the list. Files with other names, or of another hour, are left
    out. On a local disk no more than ``most`` names are held at a time, however many the folder has.
    """
    folder = f"{tenant}/{_hour(hour)}"
    names = _local_names(folder) if local else names_in(fs, folder)
    read = (_read(name, None) for name in names)
    there = (each for each in read if each is not None and hour <= each.began < hour + HOUR_MS)
    return nlargest(most, (each for each in there if before is None or each.place < before.place), lambda e: e.place)


def _local_names(folder: str) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def of_session(fs: Any, tenant: str, session: str) -> list[Recorded]:
    """The recorded tasks of a session, in no order."""
    digest = _digest(session)
    read = (_read(name, digest) for name in names_in(fs, f"{tenant}/{_bucket(digest)}"))
    return [each for each in read if each is not None]


def enter(fs: Any, tenant: str, place: str, *, local: bool) -> None:
    """Enter a task; entering it again changes nothing. On a local disk the entry is synced when this returns."""
    path = f"{tenant}/{place}"
    if not local:
        fs.pipe_file(path, b"")
        return
    folder = os.path.dirname(path)
    make_folder(folder)
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT))
    sync_folder(folder)


def leave(fs: Any, tenant: str, place: str, *, local: bool) -> None:
    """Remove an entry; a missing one is no error."""
    path = f"{tenant}/{place}"
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)
        if local:
            sync_folder(os.path.dirname(path))


def places_named(fs: Any, tenant: str, task: str) -> list[str]:
    """Where a task is entered of which nobody can read when it began: all names are looked at."""
    fs.invalidate_cache()
    there = (str(path) for folder in (BY_TIME, BY_SESSION) for path in fs.find(f"{tenant}/{folder}"))
    found = [(path, _NAME.fullmatch(path.rpartition("/")[2])) for path in there]
    parts = [path.split("/") for path, name in found if name is not None and name[3] == task]
    return ["/".join(each[-4:] if BY_TIME in each[-4:] else each[-3:]) for each in parts]


def _hour(ms: int) -> str:
    text = rfc3339(ms)
    return f"{BY_TIME}/{text[:10]}/{text[11:13]}"


def _bucket(digest: str) -> str:
    return f"{BY_SESSION}/{digest[:_BUCKET]}"


def _digest(session: str) -> str:
    return sha256(session.encode()).hexdigest()[:16]


def _started(hour: str) -> int | None:
    try:
        return max(0, milliseconds(f"{hour}:00:00Z"))
    except ValueError:
        return None


def _read(name: str, digest: str | None) -> Recorded | None:
    found = _NAME.fullmatch(name)
    if found is None or found[1] != digest or not is_identifier(found[3]):
        return None
    return Recorded(int(found[2]), found[3])
