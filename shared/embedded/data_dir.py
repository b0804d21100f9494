"""The data directory: one system at a time, and nobody else on the machine."""

import fcntl
import logging
import os
import stat
import time
from pathlib import Path
from types import TracebackType

from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

LOCK = "lock"
"""The file whose lock the running system holds."""
_LOCK_TRIES, _PAUSE_S = 10, 0.02
"""How often the lock is asked for: a client command that looks whether a system runs has it for an instant."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_to_ourselves(folder: Path) -> None:
    """Take from others what rights they have to a folder of this user's.

    Raises ``SettingsError`` for one that is shared with others, or in which they could change what is not theirs; and
    for root in another user's folder, where links of that user would lead root to any file of the machine.
    """
    found = folder.stat()
    ours = found.st_uid == os.geteuid()
    if not ours and os.geteuid() == 0:
        raise SettingsError(
            f"{folder} belongs to user {found.st_uid} and this is root: run as that user, or choose a folder of root's "
            "own with --data-dir or PENTAD_DATA_DIR"
        )
    if found.st_mode & stat.S_ISVTX or (not ours and found.st_mode & stat.S_IWOTH):
        raise SettingsError(f"{folder} is a folder that others write to: choose one of your own as PENTAD_DATA_DIR")
    if ours and found.st_mode & _OTHERS:
        folder.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
        if any(folder.iterdir()):
            log.warning("others could look into %s: from now on only this user can", folder)


def _lock(fd: int) -> None:
    """Take the lock on an open file. Raises ``BlockingIOError`` while another system has it."""
    for tried in range(1, _LOCK_TRIES + 1):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tried == _LOCK_TRIES:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


class DataDirLock:
    """One system to a data directory. A context manager; holds the file ``lock``, which names the process."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises ``SettingsError`` naming the process that has it, or why the directory cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            keep_to_ourselves(self._path.parent)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise SettingsError(f"PENTAD_DATA_DIR cannot be used: {error}") from None
        try:
            _lock(fd)
        except OSError as error:
            os.close(fd)
            raise SettingsError(self._refusal(error)) from None
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        self._fd = fd

    def release(self) -> None:
        """Let the next one in. Harmless when not held."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def _refusal(self, error: OSError) -> str:
        if not isinstance(error, BlockingIOError):
            return f"{self._path} cannot be locked ({error}): PENTAD_DATA_DIR must be on a local disk"
        pid = self._path.read_text() or "unknown"
        folder = self._path.parent
        advice = "stop it, talk to it as a client, or choose another with --data-dir or PENTAD_DATA_DIR"
        return f"process {pid} already runs on the data directory {folder}: {advice}"

    def __enter__(self) -> "DataDirLock":
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()
