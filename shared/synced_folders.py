"""Private folders and files that outlive a power cut: a name is on the disk only when its folder is."""

import errno
import os

_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Error numbers of file systems that cannot synchronise a folder."""


def make_folder(folder: str) -> None:
    """Make a folder that this user alone can open, with all above it; one that is there stays as it is."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folder(above)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    sync_folder(above)


def open_private(path: str, flags: int) -> int:
    """Open a file, as ``opener`` of ``open``: one that is made anew is for this user alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sync_folder(folder: str) -> None:
    """Write the names in a folder to the disk, so that they outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
