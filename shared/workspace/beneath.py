"""Opening of files beneath a folder, so that no path and no link leads out of it.

Linux resolves the whole path with ``openat2``, which refuses ``..`` out of the folder, symbolic links and magic links
also while others rename folders under way. Elsewhere each name is opened by itself, without following links.
"""

import ctypes
import errno
import os
import platform
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError

_OPENAT2 = 437
"""Number of the system call, the same on x86-64 and arm64."""
_MACHINES = frozenset(("x86_64", "amd64", "aarch64", "arm64"))
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MAX_RESOLUTIONS = 32
"""How often a path is resolved again that others rename meanwhile (``EAGAIN``)."""
_MISSING_CALL = frozenset((errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP))
"""Error numbers of kernels and containers without the system call."""
SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""Flags of every opening: a pipe must not hold us up, a terminal must not become ours."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

Opens = Callable[[int, str, int], int]
"""Opens a path beneath an open folder with these flags; returns the file's descriptor. Raises ``OSError``."""


class _OpenHow(ctypes.Structure):
    """The argument of the system call."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_at_once(folder: int, path: str, flags: int) -> int:
    """Open a path with ``openat2``. Raises ``OSError``."""
    how = _OpenHow(flags | SAFELY, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    call = ctypes.CDLL(None, use_errno=True).syscall
    arguments = ctypes.c_long(_OPENAT2), ctypes.c_int(folder), path.encode(), ctypes.byref(how)
    for _ in range(_MAX_RESOLUTIONS):
        handle = int(call(*arguments, ctypes.c_size_t(ctypes.sizeof(how))))
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, "folders of the path are being renamed all the time", path)


def open_by_names(folder: int, path: str, flags: int) -> int:
    """Open a path name by name, none of which may be a link. Raises ``OSError``."""
    *above, name = path.split("/")
    handle = os.dup(folder)
    try:
        for each in above:
            if each in ("", ".", ".."):
                raise OSError(errno.EXDEV, "the path leads out of its folder", path)
            inner = os.open(each, FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        if name in ("", "..") or (name == "." and above):
            raise OSError(errno.EXDEV, "the path leads out of its folder", path)
        return os.open(name, flags | SAFELY, dir_fd=handle)
    finally:
        os.close(handle)


def opener_of_this_machine() -> Opens:
    """Return `open_at_once` where the kernel has the system call, else `open_by_names`."""
    if sys.platform != "linux" or platform.machine().lower() not in _MACHINES:
        return open_by_names
    handle = os.open("/", FOLDER)
    try:
        os.close(open_at_once(handle, ".", os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        if error.errno in _MISSING_CALL:
            return open_by_names
        raise
    finally:
        os.close(handle)
    return open_at_once


@contextmanager
def opened(opens: Opens, folder: int, path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a regular file beneath a folder for the length of a block.

    Raises ``FileMissingError``, and ``FileRefusedError`` for a link, a folder, a pipe or a device.
    """
    handle = open_regular(opens, folder, path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


def open_regular(opens: Opens, folder: int, path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file beneath a folder. Raises the errors of `opened`."""
    try:
        handle = opens(folder, path, flags)
    except OSError as error:
        raise told(error, path) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise FileRefusedError(f"{path!r} is no file but a folder, a pipe or a device")


def told(error: OSError, path: str) -> Exception:
    """Return what a caller is told of a failure to open a path; the failure itself where the disk is at fault."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FileMissingError(f"there is no file {path!r} in this workspace")
    if error.errno in (errno.ELOOP, errno.EXDEV, errno.EMLINK):
        return FileRefusedError(f"{path!r} is a link, or a link is on its way: links are not followed")
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
        return FileRefusedError(f"{path!r} is no file but a folder, a pipe or a device")
    return error
