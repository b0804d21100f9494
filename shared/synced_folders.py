"""Folders that outlive a power cut: a name is on the disk only when the folder that it stands in is."""

import errno
import os

_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""What file systems answer on which a folder cannot be synchronised."""


def make_folder(folder: str) -> None:
    """Make it with all above it, unless it is there."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folder(above)
    os.makedirs(folder, exist_ok=True)
    sync_folder(above)


def sync_folder(folder: str) -> None:
    """What was made, moved or removed in it is so from now on."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
