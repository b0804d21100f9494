"""Folders and files that belong to this user alone, and whose names outlive a power cut.

By small files in a private folder processes of this user tell each other things, which may decide where a key is sent:
a folder that others could have written to, or a link that leads out of it, is refused. A name is safe from a power cut
only when its folder was synchronised.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

_MAX_BYTES = 4096
"""Bytes that a private file may have."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SAFELY = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not hold us up


class NotPrivateError(Exception):
    """Others could have written what is to be read. The text says why, and follows the name of the file or folder."""


class PrivateFolder:
    """An open folder of this user's. A context manager.

    Raises ``NotPrivateError`` for a folder of another user's, or one that others may use; ``OSError`` without one.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(self._fd)
            if found.st_uid != os.geteuid():
                raise NotPrivateError("belongs to another user")
            if found.st_mode & _OTHERS:
                raise NotPrivateError("is open to other users of this machine")
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._fd)

    def read(self, name: str) -> str:
        """The text of a small file, without blanks around it; '' when there is none, or it is no text.

        Raises ``NotPrivateError`` for a link, and for a file of another user's.
        """
        try:
            fd = self._open(name)
        except OSError:
            return ""
        try:
            return os.read(fd, _MAX_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        finally:
            os.close(fd)

    def is_locked(self, name: str) -> bool:
        """Whether a living process holds the lock on a file. Only one of this user's can: nobody else may open it."""
        import fcntl  # not on Windows, where no system runs that would have written such a file

        try:
            fd = self._open(name)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(fd)
        return False

    def make(self, name: str, text: str) -> None:
        """Write a file that is not there yet, for this user alone. Raises ``FileExistsError`` when it is."""
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600, dir_fd=self._fd)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def _open(self, name: str) -> int:
        try:
            fd = os.open(name, os.O_RDONLY | _SAFELY, dir_fd=self._fd)
        except OSError:
            if stat.S_ISLNK(os.lstat(name, dir_fd=self._fd).st_mode):
                raise NotPrivateError("is a link") from None
            raise
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            return fd
        os.close(fd)
        if stat.S_ISREG(found.st_mode):
            raise NotPrivateError("belongs to another user")
        raise FileNotFoundError(name)


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


def replace_file(path: str, data: bytes) -> None:
    """Write a file of this user's whole or not at all, in the place of one that is there; on the disk when it returns.

    Its folder must be there. What a writer that is killed leaves ends in ``.part``.
    """
    part = f"{path}.{token_hex(6)}.part"
    try:
        with open(part, "wb", opener=open_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    sync_folder(os.path.dirname(path))


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
