"""Failures of the machine that waiting can heal: a full disk, one that is read only, too many open files.

What meets one is an outage: nothing is damaged, and nothing was wrong with what was to be done.
"""

import errno
import os
import re
from pathlib import Path

ROOM_BYTES = 8 << 20
"""Bytes that must be free on a disk before an embedded store writes to it: more than any one call writes."""
_PASSING = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE,
        errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ETXTBSY, errno.ETIMEDOUT, errno.ESTALE, errno.ENODEV,
        errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOLCK,
    }
)  # fmt: skip
"""Numbers of errors that end without anybody losing anything: with room, a right, a cable, time."""
_OS_ERROR = re.compile(r"\(os error (\d{1,5})\)", re.ASCII)
"""How libraries written in Rust tell an error of the system in their texts."""


def passes(error: BaseException) -> bool:
    """Whether waiting may heal this: an error of the system, or want of memory."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _PASSING)


def tells_passing(error: BaseException) -> bool:
    """Whether waiting may heal an error of a library that names an error of the system in its text."""
    return passes(error) or any(int(number) in _PASSING for number in _OS_ERROR.findall(str(error)))


def want_of_room(folder: Path) -> str | None:
    """Return what the disk of this folder lacks, or None. A folder that is missing counts as its nearest parent.

    Raises ``OSError`` when nobody can tell.
    """
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    seen = os.statvfs(there)
    free = (seen.f_bfree if os.geteuid() == 0 else seen.f_bavail) * seen.f_frsize
    if free < ROOM_BYTES:
        needed = f"{ROOM_BYTES / 1e6:.0f} MB are needed"
        return f"the disk of {folder} is full ({free / 1e6:.1f} MB are free, {needed}): make room there"
    if seen.f_files and not (seen.f_ffree if os.geteuid() == 0 else seen.f_favail):
        return f"the disk of {folder} takes no more files (it has no inodes left): make room there"
    return None
