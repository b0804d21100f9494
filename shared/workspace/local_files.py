"""Workspaces in a local folder, or one that several machines share.

A workspace is ``TENANT/NAME`` with ``files`` (what users and tools see), ``parts`` (files on their way), ``calls``
(notes of calls that have made their change), ``about`` (whose it is) and ``lock``. Only ``files`` has names that others
choose; each of its files is opened beneath it and through no link.
"""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from secrets import token_hex

from pydantic import ValidationError

from pentad.shared.errors import OutageError
from pentad.shared.private_files import make_folder, replace_file, sync_folder
from pentad.shared.workspace.beneath import (
    FOLDER,
    SAFELY,
    Opens,
    open_regular,
    opener_of_this_machine,
    told,
)
from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError
from pentad.shared.workspace.file_paths import is_path
from pentad.shared.workspace.file_store import (
    LATE_PART,
    MAX_FILES,
    MAX_PARTS,
    MAX_RECEIPTS,
    PART_KEPT_S,
    RECEIPT_KEPT_S,
    FileInfo,
    Listing,
    OpenFile,
    Part,
    Place,
    Receipt,
    part_of_call,
    place_in,
)

_LOCK_S = 10.0
"""Seconds for which a writer waits for another one."""
_POLL_S = 0.01
_MAX_ENTRIES = 10 * MAX_FILES
"""Entries of folders that are looked at: more than any workspace may have, if scripts leave many."""
_ERASED = ".erased-"
"""Begins the name of a workspace that is being removed."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY
_MAX_NOTE_BYTES = 65_536


class LocalFiles:
    """Keeps workspaces below ``root``. ``opens``: how a path is opened; unset: as this machine can."""

    def __init__(self, root: str, opens: Opens | None = None) -> None:
        self._root = os.path.abspath(root)
        self._opens = opens or opener_of_this_machine()

    def folder(self, place: Place) -> str:
        """Return the folder of a workspace's files, which is made if it is not there."""
        self._make(place)
        return os.path.join(self._home(place), "files")

    def open(self, place: Place, path: str) -> OpenFile:
        with self._files(place) as files:
            return _LocalFile(open_regular(self._opens, files, path), path)

    def info(self, place: Place, path: str) -> FileInfo | None:
        try:
            file = self.open(place, path)
        except FileMissingError:
            return None
        file.close()
        return file.info

    def listing(self, place: Place) -> Listing:
        found: list[FileInfo] = []
        size = count = 0
        with suppress(FileMissingError), self._files(place) as files:
            for path, about in _walk(files):
                size, count = size + about.st_size, count + 1
                if is_path(path):
                    found.append(_info_of(path, about))
        return Listing(tuple(sorted(found, key=lambda file: file.path)), size, count)

    @contextmanager
    def changing(self, place: Place) -> Iterator[None]:
        with ExitStack() as held:
            handle = self._locked(place)
            held.callback(os.close, handle)
            self._sweep(place)
            yield

    def new_part(self, place: Place, name: str) -> Part:
        self._make(place)
        folder = os.path.join(self._home(place), "parts")
        there = os.listdir(folder)
        if len(there) >= MAX_PARTS and name not in there:
            self._sweep(place)
            there = os.listdir(folder)
        if len(there) >= MAX_PARTS and name not in there:
            raise FileRefusedError(
                f"{MAX_PARTS} files are on their way into this workspace already: try again when one is there"
            )
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError):
            os.unlink(path)
        return _LocalPart(path, os.open(path, _NEW, 0o600))

    def put(self, place: Place, part: Part, path: str) -> FileInfo:
        source = os.path.join(self._home(place), "parts", part.name)
        *above, name = path.split("/")
        with self._files(place) as files, ExitStack() as held:
            folder = files
            for each in above:
                folder = _inner(folder, each, path)
                held.callback(os.close, folder)
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):
                    raise FileRefusedError(f"{path!r} is no file but a folder, a link, a pipe or a device")
            try:
                os.rename(source, name, dst_dir_fd=folder)
            except FileNotFoundError:
                raise FileRefusedError(LATE_PART) from None
            os.fsync(folder)
            return _info_of(path, os.lstat(name, dir_fd=folder))

    def remove(self, place: Place, path: str) -> None:
        *above, name = path.split("/")
        with self._files(place) as files, ExitStack() as held:
            folders = [files]
            try:
                for each in above:
                    folders.append(os.open(each, FOLDER, dir_fd=folders[-1]))
                    held.callback(os.close, folders[-1])
                os.unlink(name, dir_fd=folders[-1])
            except OSError as error:
                raise told(error, path) from None
            for each in reversed(above):  # folders in which nothing is left go too
                folders.pop()
                try:
                    os.rmdir(each, dir_fd=folders[-1])
                except OSError:
                    break

    def receipt(self, place: Place, call: str) -> Receipt | None:
        try:
            with open(self._note(place, call), "rb") as note:
                return Receipt.model_validate_json(note.read(_MAX_NOTE_BYTES))
        except (FileNotFoundError, ValidationError):
            return None

    def has_part(self, place: Place, name: str) -> bool:
        return os.path.lexists(os.path.join(self._home(place), "parts", name))

    def note(self, place: Place, call: str, receipt: Receipt) -> None:
        replace_file(self._note(place, call), receipt.model_dump_json().encode())

    def forget(self, place: Place, call: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._note(place, call))

    def erase(self, place: Place) -> None:
        above = os.path.join(self._root, place.tenant)
        home, gone = self._home(place), f"{_ERASED}{place.name}-"
        with suppress(FileNotFoundError):
            os.rename(home, os.path.join(above, f"{gone}{token_hex(6)}"))
        with suppress(FileNotFoundError):
            for name in os.listdir(above):
                if name.startswith(gone):
                    shutil.rmtree(os.path.join(above, name))
            sync_folder(above)

    def places(self) -> Iterator[Place]:
        for tenant in _folders(self._root):
            for name in _folders(os.path.join(self._root, tenant)):
                with suppress(OSError), open(os.path.join(self._root, tenant, name, "about"), "rb") as note:
                    place = place_in(note.read(_MAX_NOTE_BYTES))
                    if place is not None and place.path == f"{tenant}/{name}":
                        yield place

    def _home(self, place: Place) -> str:
        return os.path.join(self._root, place.tenant, place.name)

    def _note(self, place: Place, call: str) -> str:
        return os.path.join(self._home(place), "calls", part_of_call(call))

    def _make(self, place: Place) -> None:
        home = self._home(place)
        about = os.path.join(home, "about")
        if os.path.exists(about):
            return
        for name in ("files", "parts", "calls"):
            make_folder(os.path.join(home, name))
        beside = f"{about}.{token_hex(6)}"
        with os.fdopen(os.open(beside, _NEW, 0o600), "wb") as note:
            note.write(place.about())
        os.replace(beside, about)

    @contextmanager
    def _files(self, place: Place) -> Iterator[int]:
        try:
            folder = os.open(os.path.join(self._home(place), "files"), FOLDER)
        except FileNotFoundError:
            raise FileMissingError("this workspace has no files") from None
        try:
            yield folder
        finally:
            os.close(folder)

    def _locked(self, place: Place) -> int:
        """Return the open lock of a workspace. Raises ``OutageError`` when others hold it for too long."""
        path, give_up = os.path.join(self._home(place), "lock"), time.monotonic() + _LOCK_S
        while True:
            self._make(place)
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | SAFELY, 0o600)
            except FileNotFoundError:  # erased just now
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
            except (BlockingIOError, FileNotFoundError):
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            if time.monotonic() > give_up:
                raise OutageError(f"another writer has held this workspace for {_LOCK_S:g} seconds: try again")
            time.sleep(_POLL_S)

    def _sweep(self, place: Place) -> None:
        """Remove what killed writers left, and notes of calls that cannot come again."""
        home, now = self._home(place), time.time()
        notes = _aged(os.path.join(home, "calls"))
        for number, (modified, path) in enumerate(reversed(notes)):
            if number >= MAX_RECEIPTS or now - modified > RECEIPT_KEPT_S:
                _unlink(path)
        for modified, path in _aged(os.path.join(home, "parts")):
            if now - modified > PART_KEPT_S:
                _unlink(os.path.join(home, "calls", os.path.basename(path)))  # first: without its part it says "made"
                _unlink(path)


class _LocalFile:
    """A local file that is open for reading."""

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self.info = _info_of(path, os.fstat(handle))

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._handle, length, offset)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class _LocalPart:
    """A part in the folder of parts."""

    def __init__(self, path: str, handle: int) -> None:
        self._path, self._file = path, os.fdopen(handle, "wb")
        self._inode = os.fstat(handle).st_ino
        self.name = os.path.basename(path)

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        with suppress(OSError):  # what could not be written need not be
            self._file.close()
        with suppress(FileNotFoundError):
            if os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)


def _inner(folder: int, name: str, path: str) -> int:
    """Open a folder in a folder, which is made if it is not there."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        raise FileRefusedError(f"{path!r} cannot be a file: {name!r} on its way is a file or a link") from None
    except OSError as error:
        raise told(error, path) from None


def _walk(files: int) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files below an open folder, with their paths, in no order. Links are not followed."""
    waiting, looked = [""], 0
    while waiting:
        above = waiting.pop()
        with suppress(OSError):
            folder = _folder_at(files, above)
            try:
                for entry in os.scandir(folder):
                    looked += 1
                    if looked > _MAX_ENTRIES:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{above}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            yield f"{above}{entry.name}", entry.stat(follow_symlinks=False)
            finally:
                os.close(folder)


def _folder_at(files: int, above: str) -> int:
    folder = os.dup(files)
    for name in above.split("/")[:-1]:
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    if above:
        return folder
    os.close(folder)
    return os.open(".", FOLDER, dir_fd=files)  # an offset of its own


def _info_of(path: str, about: os.stat_result) -> FileInfo:
    etag = f"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"
    return FileInfo(path, about.st_size, about.st_mtime_ns // 1_000_000, etag)


def _aged(folder: str) -> list[tuple[float, str]]:
    """The files of a folder with their times, the oldest first."""
    found = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            found.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    return sorted(found)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _folders(folder: str) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    return [each.name for each in entries if each.is_dir(follow_symlinks=False) and not each.name.startswith(".")]
