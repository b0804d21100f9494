"""The folder of one script: made empty, looked at behind its end, removed. What lies in it was written by others."""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pentad.shared.clipping import plain

_PREFIX = "pentad-scripts-"
_LEFT_S = 3600.0
"""Seconds after which a folder that nobody has touched was left by a process that was killed."""
_MAX_NAME_CHARS = 300


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A file that a script has left."""

    name: str
    """Path below the script's folder, on one line."""
    size: int
    data: bytes | None
    """The bytes; None for a file that is too large to be handed on."""


def make_home() -> str:
    """Make the folder in which scripts have theirs; what killed processes of this user have left there is removed."""
    _sweep(Path(tempfile.gettempdir()))
    return tempfile.mkdtemp(prefix=_PREFIX)


def _sweep(folder: Path) -> None:
    long_ago = time.time() - _LEFT_S
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and found.st_mtime < long_ago:
                remove(str(path))


def make_workspace(home: str) -> str:
    """Make an empty folder for one script."""
    return tempfile.mkdtemp(dir=home)


def left_files(folder: str, most: int, most_bytes: int) -> list[ScriptFile]:
    """Return the files that a script has left in its folder, by name: at most so many, with at most so many bytes.

    Links, pipes and devices are left out, and so is what cannot be read.
    """
    found: list[ScriptFile] = []
    left = most_bytes
    for path, name, place in _files_below(folder):
        with suppress(OSError):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
            with open(file, "rb") as opened:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    continue
                data = opened.read(left + 1) if status.st_size <= left else None
            if data is not None and len(data) > left:
                data = None
            left -= len(data or b"")
            found.append(ScriptFile(plain(path, _MAX_NAME_CHARS), status.st_size, data))
        if len(found) == most:
            break
    return sorted(found, key=lambda file: file.name)


def _files_below(folder: str) -> Iterator[tuple[str, str, int]]:
    for path, _, names, place in os.fwalk(folder, follow_symlinks=False):
        for name in names:
            yield os.path.relpath(os.path.join(path, name), folder), name, place


def remove(folder: str) -> None:
    """Remove a folder with all in it, also what its script has forbidden to enter."""
    with suppress(OSError):
        for _, names, _, place in os.fwalk(folder, follow_symlinks=False):
            for name in names:
                with suppress(OSError):
                    if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
                        os.chmod(name, 0o700, dir_fd=place)
    shutil.rmtree(folder, ignore_errors=True)
