"""Which tasks have records, by when they began: an empty file for each, whose name says all that a list asks.

`TENANT/_by_time/2026-11-23/14/001795443862123-1c291ca3-task-0-…`: when it began, whose session it is of (a checksum),
which task. No task can be called as the folder is. One hour is one listing (docs/decisions/0034).
"""

import contextlib
import os
import re
from typing import Any
from zlib import crc32

from pentad.contracts.ids import is_identifier, milliseconds, rfc3339
from pentad.contracts.records import TaskRecord
from pentad.shared.immutable import immutable
from pentad.shared.synced_folders import make_folder, sync_folder

FOLDER = "_by_time"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_HOUR = re.compile(r"[01]\d|2[0-3]", re.ASCII)
_NAME = re.compile(r"(\d{15})-([0-9a-f]{8})-(.+)", re.ASCII)


@immutable
class Recorded:
    """A task that has a record."""

    began: int
    """In ms since the epoch."""
    task: str
    session: str
    """Its session's `checksum`."""


def checksum(session: str) -> str:
    """Two sessions seldom have the same: who asks for one reads few records in vain."""
    return f"{crc32(session.encode()):08x}"


def names_in(fs: Any, folder: str) -> list[str]:
    """What lies in a folder, as it is now; nothing in one that is not there."""
    fs.invalidate_cache(folder)  # others write too
    try:
        return [str(path).rstrip("/").rpartition("/")[2] for path in fs.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def place_of(record: TaskRecord) -> str | None:
    """The path of a record's file, below its tenant's folder; None when it says no time that a list can have."""
    task = record.task
    try:
        began = milliseconds(task.created_at)
    except ValueError:
        return None
    if began < 0:
        return None
    return f"{_folder(began)}/{began:015d}-{checksum(task.session_id)}-{task.task_id}"


def days(fs: Any, tenant: str) -> list[int]:
    """The days on which tasks with records began, in ms, the last first. ``tenant``: its folder."""
    found = (_started(f"{name}T00") for name in names_in(fs, f"{tenant}/{FOLDER}") if _DAY.fullmatch(name))
    return sorted((day for day in found if day is not None), reverse=True)


def hours(fs: Any, tenant: str, day: int) -> list[int]:
    """The hours of such a day, in ms, the last first."""
    there = names_in(fs, f"{tenant}/{FOLDER}/{rfc3339(day)[:10]}")
    return sorted((day + int(name) * HOUR_MS for name in there if _HOUR.fullmatch(name)), reverse=True)


def recorded(fs: Any, tenant: str, hour: int) -> list[Recorded]:
    """Those that began in this hour, in no order. What is called otherwise, or lies in the wrong hour, is none."""
    read = (_read(name) for name in names_in(fs, f"{tenant}/{_folder(hour)}"))
    return [each for each in read if each is not None and hour <= each.began < hour + HOUR_MS]


def enter(fs: Any, tenant: str, place: str, *, local: bool) -> None:
    """Once more is no more. In a folder it is on the disk behind this."""
    path = f"{tenant}/{place}"
    if not local:
        fs.pipe_file(path, b"")
        return
    folder = os.path.dirname(path)
    make_folder(folder)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    sync_folder(folder)


def leave(fs: Any, tenant: str, place: str, *, local: bool) -> None:
    """One that is not there has left already."""
    path = f"{tenant}/{place}"
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)
        if local:
            sync_folder(os.path.dirname(path))


def places_named(fs: Any, tenant: str, task: str) -> list[str]:
    """Where a task is entered of which nobody can read when it began: every hour is looked at."""
    return [
        f"{_folder(hour)}/{each.began:015d}-{each.session}-{task}"
        for day in days(fs, tenant)
        for hour in hours(fs, tenant, day)
        for each in recorded(fs, tenant, hour)
        if each.task == task
    ]


def _folder(ms: int) -> str:
    text = rfc3339(ms)
    return f"{FOLDER}/{text[:10]}/{text[11:13]}"


def _started(hour: str) -> int | None:
    try:
        return max(0, milliseconds(f"{hour}:00:00Z"))
    except ValueError:
        return None


def _read(name: str) -> Recorded | None:
    found = _NAME.fullmatch(name)
    if found is None or not is_identifier(found[3]):
        return None
    return Recorded(int(found[1]), found[3], found[2])
