"""The workspace of a session: files that its user and its tools share, in one place for all services.

All changes are whole: a file is written beside, and takes its place at once. A change that a tool call asks for is made
once, however often the call runs: a note of it is kept until long after.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from secrets import token_hex
from typing import Any, TypeVar

from pentad.contracts.tools import KeptFile
from pentad.shared.errors import OutageError, PentadError
from pentad.shared.immutable import immutable
from pentad.shared.settings import Settings
from pentad.shared.storage_url import StorageUrl
from pentad.shared.workspace.artifact_paths import ARTIFACTS, artifact_path, unique_name
from pentad.shared.workspace.file_errors import (
    FileChangedError,
    FileMissingError,
    FileRefusedError,
    FileTooLargeError,
    WorkspaceFullError,
)
from pentad.shared.workspace.file_paths import Glob, read_path
from pentad.shared.workspace.file_search import SearchRequest, search_files
from pentad.shared.workspace.file_store import (
    MAX_FILES,
    FileInfo,
    FileStore,
    OpenFile,
    Part,
    Place,
    Receipt,
    part_of_call,
)
from pentad.shared.workspace.local_files import LocalFiles
from pentad.shared.workspace.media_types import told_type
from pentad.shared.workspace.object_files import ObjectFiles
from pentad.shared.workspace.text_pages import TextPage, read_page

T = TypeVar("T")

NOT_SET = (
    "files are not kept here: set PENTAD_FILES to a folder or an fsspec URL that the gateway, the task-runners, the "
    "tool-workers and the archivers share"
)
"""The text for callers where no place for workspaces is set."""
_BLOCK = 1 << 20
"""Bytes that are copied at a time."""
MAX_EDITED_BYTES = 16 << 20
"""Bytes of a file in which a text can be replaced."""


@immutable
class Expected:
    """The expectation that a writer has of the file that is there."""

    etag: str | None = None
    """Tag of the version that it replaces."""
    absent: bool = False
    """Whether there must be no such file."""
    present: bool = False
    """Whether there must be one."""

    def check(self, path: str, there: FileInfo | None) -> None:
        """Raise ``FileChangedError`` when the file is not as expected."""
        if self.absent and there is not None:
            raise FileChangedError(f"there is a file {path!r} already")
        if (self.present or self.etag is not None) and there is None:
            raise FileChangedError(f"there is no file {path!r} any more")
        if self.etag is not None and there is not None and there.etag != self.etag:
            raise FileChangedError(f"the file {path!r} has changed meanwhile: read it again")


ANYTHING = Expected()


@immutable
class FileLimits:
    """Bounds of workspaces."""

    file_bytes: int
    """Bytes of one file."""
    workspace_bytes: int
    """Bytes of all files of a session together."""


def workspaces_of(settings: Settings) -> "Workspaces | None":
    """Return the workspaces of these settings; None where no place for them is set. Raises ``SettingsError``."""
    if settings.pentad_files is None:
        return None
    return Workspaces(settings.pentad_files, FileLimits(settings.pentad_file_bytes, settings.pentad_workspace_bytes))


class Workspaces:
    """The workspaces of all sessions, under a folder or an fsspec URL. Nothing is opened before the first use.

    Raises ``SettingsError`` for a kind of store that is not known.
    """

    def __init__(self, url: str, limits: FileLimits) -> None:
        self._storage, self._limits = StorageUrl("PENTAD_FILES", url), limits
        self._store: FileStore | None = None

    def open(self, tenant: str, session: str) -> "Workspace":
        """Return the workspace of a session, which may be empty. Raises ``FileRefusedError`` for what is no session."""
        return Workspace(self._opened, Place(tenant, session), self._limits)

    async def erase(self, tenant: str, session: str) -> None:
        """Remove the workspace of a session. Safe to repeat. Raises ``OutageError``."""
        place = Place(tenant, session)
        await _in_thread(lambda: self._opened().erase(place))

    async def places(self) -> list[Place]:
        """Return every workspace that there is. Raises ``OutageError``."""
        return await _in_thread(lambda: list(self._opened().places()))

    async def last_change(self, place: Place) -> int:
        """Return when a file of a workspace was written last, in ms; 0 without files. Raises ``OutageError``."""
        listing = await _in_thread(lambda: self._opened().listing(place))
        return max((file.modified for file in listing.files), default=0)

    def _opened(self) -> FileStore:
        if self._store is None:
            self._store = _opened(self._storage)
        return self._store


class Workspace:
    """One session's files. All methods raise ``FileRefusedError``, or ``OutageError`` while the storage is away."""

    def __init__(self, store: Callable[[], FileStore], place: Place, limits: FileLimits) -> None:
        self._opened, self._place, self._limits = store, place, limits

    async def folder(self) -> str | None:
        """Return the local folder with the files, for programs that work in it; None where files are objects."""

        def found() -> str | None:
            store = self._opened()
            return store.folder(self._place) if isinstance(store, LocalFiles) else None

        return await _in_thread(found)

    async def list(self, glob: str | None = None) -> "list[FileInfo]":
        """Return all files, or those whose paths match, by path."""
        pattern = None if glob is None else Glob(glob)
        listing = await self._do(lambda store: store.listing(self._place))
        return [file for file in listing.files if pattern is None or pattern.matches(file.path)]

    async def info(self, path: str) -> FileInfo | None:
        """Return a file; None when there is none."""
        name = read_path(path)
        return await self._do(lambda store: store.info(self._place, name))

    async def open(self, path: str) -> "Reading":
        """Open a file for reading, which the caller closes. Raises ``FileMissingError``."""
        name = read_path(path)
        return Reading(await self._do(lambda store: store.open(self._place, name)))

    async def read(self, path: str, most: int) -> bytes:
        """Return a whole file. Raises ``FileRefusedError`` for one of more than ``most`` bytes."""
        reading = await self.open(path)
        try:
            if reading.info.size > most:
                raise FileRefusedError(f"{path!r} has {reading.info.size:,} bytes, at most {most:,} are read at once")
            return await reading.read(0, most)
        finally:
            await reading.close()

    async def page(self, path: str, offset: int, limit: int, most_bytes: int) -> TextPage:
        """Return lines of a text file, from line ``offset`` (the first is 1) on. Raises ``FileRefusedError``."""
        name = read_path(path)

        def read(store: FileStore) -> TextPage:
            file = store.open(self._place, name)
            try:
                return read_page(file, offset, limit, most_bytes)
            finally:
                file.close()

        return await self._do(read)

    async def search(self, request: SearchRequest) -> str:
        """Return the places where something is found in text files, one a line. Raises ``FileRefusedError``."""
        return await self._do(lambda store: search_files(store, self._place, request))

    async def write(
        self, path: str, data: bytes, expected: Expected = ANYTHING, *, call: str | None = None, told: str = ""
    ) -> str:
        """Write a whole file; return ``told``, or what was told when ``call`` made this change before."""
        return await self._change(path, lambda _, out: out(data), expected, call, lambda size: told)

    async def append(self, path: str, data: bytes, *, call: str | None = None) -> str:
        """Append to a file, which is made if it is not there."""

        def build(there: OpenFile | None, out: "_Out") -> None:
            for block in _blocks(there):
                out(block)
            out(data)

        return await self._change(
            path, build, ANYTHING, call, lambda size: f"Appended {len(data):,} bytes to {path}, which has {size:,} now."
        )

    async def replace(self, path: str, old: str, new: str, *, call: str | None = None) -> str:
        """Replace a text that stands in a file exactly once."""

        def build(there: OpenFile | None, out: "_Out") -> None:
            if there is None:
                raise FileMissingError(f"there is no file {path!r} in this workspace")
            if there.info.size > MAX_EDITED_BYTES:
                raise FileRefusedError(f"{path!r} is too large to replace a text in it: write it anew")
            before, sought = b"".join(_blocks(there)), old.encode(errors="replace")
            count = before.count(sought) if sought else 0
            if count != 1:
                raise FileRefusedError(
                    f"`old` stands in {path!r} {count} times, and must once: give more of the text around it"
                    if count
                    else f"`old` does not stand in {path!r}: read the file, and give a text of it as it is there"
                )
            out(before.replace(sought, new.encode(errors="replace")))

        return await self._change(
            path, build, ANYTHING, call, lambda size: f"Replaced the text in {path}, which has {size:,} bytes now."
        )

    async def upload(self, path: str) -> "Upload":
        """Begin a file that comes in pieces. The caller commits or aborts it."""
        name = read_path(path)
        part = await self._do(lambda store: store.new_part(self._place, token_hex(20)))
        return Upload(self, name, part, self._limits.file_bytes)

    async def remove(self, path: str, expected: Expected = ANYTHING) -> None:
        """Remove a file. Raises ``FileMissingError``."""
        name = read_path(path)

        def remove(store: FileStore) -> None:
            if store.info(self._place, name) is None:
                raise FileMissingError(f"there is no file {name!r} in this workspace")
            with store.changing(self._place):
                expected.check(name, store.info(self._place, name))
                store.remove(self._place, name)

        await self._do(remove)

    async def keep_artifact(self, call: str, name: str, data: bytes, media_type: str | None = None) -> KeptFile:
        """Keep bytes that a tool has made, as ``artifacts/CALL/NAME``; the same again when the call runs again."""
        kind = told_type(media_type, data[:64], name)
        path = artifact_path(call, unique_name(name, kind, ()))
        await self.write(path, data)
        return KeptFile(path=path, media_type=kind, size=len(data), digest=digest_of(data))

    async def remove_artifacts(self, calls: Collection[str]) -> None:
        """Remove what these calls have made. Safe to repeat."""
        for file in await self.list(f"{ARTIFACTS}/*/**"):
            if file.path.split("/")[1] in calls:
                with suppress(FileMissingError):
                    await self.remove(file.path)

    async def _change(
        self,
        path: str,
        build: "Callable[[OpenFile | None, _Out], None]",
        expected: Expected,
        call: str | None,
        telling: Callable[[int], str],
    ) -> str:
        name = read_path(path)
        return await self._do(lambda store: self._make_change(store, name, build, expected, call, telling))

    def _make_change(
        self,
        store: FileStore,
        path: str,
        build: "Callable[[OpenFile | None, _Out], None]",
        expected: Expected,
        call: str | None,
        telling: Callable[[int], str],
    ) -> str:
        place = self._place
        with store.changing(place):
            made = None if call is None else self._made_before(store, call)
            if made is not None:
                return made
            there = store.info(place, path)
            expected.check(path, there)
            part = store.new_part(place, token_hex(20) if call is None else part_of_call(call))
            try:
                out = _Out(part, self._limits.file_bytes)
                with _opened_file(store, place, path, there) as file:
                    build(file, out)
                part.finish()
                self._check_room(store, there, out.size)
                told = telling(out.size)
                if call is not None:
                    store.note(place, call, Receipt(part=part.name, path=path, digest=out.digest, told=told))
                store.put(place, part, path)
            except BaseException:
                if call is not None:
                    store.forget(place, call)
                part.discard()
                raise
            return told

    def _made_before(self, store: FileStore, call: str) -> str | None:
        """Return what was told of a change that was made before; None for one that is still to be made."""
        receipt = store.receipt(self._place, call)
        if receipt is None:
            return None
        if not store.has_part(self._place, receipt.part) or self._digest(store, receipt.path) == receipt.digest:
            return receipt.told
        store.forget(self._place, call)  # its writer was killed before the part took its place
        return None

    def _digest(self, store: FileStore, path: str) -> str | None:
        try:
            file = store.open(self._place, path)
        except FileRefusedError:
            return None
        try:
            digest = sha256()
            for block in _blocks(file):
                digest.update(block)
            return digest.hexdigest()
        finally:
            file.close()

    def place_upload(self, store: FileStore, path: str, part: Part, size: int, expected: Expected) -> FileInfo:
        """Let an upload become its file. Called by `Upload`, in a thread."""
        part.finish()
        with store.changing(self._place):
            there = store.info(self._place, path)
            expected.check(path, there)
            self._check_room(store, there, size)
            return store.put(self._place, part, path)

    def _check_room(self, store: FileStore, there: FileInfo | None, size: int) -> None:
        listing = store.listing(self._place)
        if there is None and listing.count >= MAX_FILES:
            raise WorkspaceFullError(f"this workspace has {listing.count:,} files, and no more are kept: remove some")
        total = listing.size - (0 if there is None else there.size) + size
        if total > self._limits.workspace_bytes:
            raise WorkspaceFullError(
                f"this workspace would have {total:,} bytes, and may have {self._limits.workspace_bytes:,} "
                "(PENTAD_WORKSPACE_BYTES): remove files first"
            )

    async def do(self, work: Callable[[FileStore], T]) -> T:
        """Run work on the store in a thread, for the parts of this module."""
        return await self._do(work)

    async def _do(self, work: Callable[[FileStore], T]) -> T:
        return await _in_thread(lambda: work(self._opened()))


class Reading:
    """A file that is open for reading."""

    def __init__(self, file: OpenFile) -> None:
        self._file, self.info = file, file.info

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, fewer at its end."""
        return await _in_thread(lambda: self._file.read(offset, length))

    async def close(self) -> None:
        """Close the file. Safe to repeat."""
        self._file.close()


class Upload:
    """A file that comes in pieces; nothing of it is seen before it is committed."""

    def __init__(self, workspace: Workspace, path: str, part: Part, limit: int) -> None:
        self._workspace, self._path, self._part = workspace, path, part
        self._out = _Out(part, limit)

    def check_size(self, size: int) -> None:
        """Raise ``FileTooLargeError`` when a file of this size is too large, before any of it comes."""
        self._out.check(size)

    async def write(self, data: bytes) -> None:
        """Append a piece. Raises ``FileTooLargeError`` beyond the limit of a file."""
        await _in_thread(lambda: self._out(data))

    async def commit(self, expected: Expected = ANYTHING) -> FileInfo:
        """Let it become the file. Raises ``FileChangedError``, ``WorkspaceFullError``."""
        path, part, size = self._path, self._part, self._out.size
        return await self._workspace.do(lambda store: self._workspace.place_upload(store, path, part, size, expected))

    async def abort(self) -> None:
        """Remove what has come, unless it was committed. Safe to repeat."""
        await _in_thread(self._part.discard)


class _Out:
    """The writing end of a part, which counts."""

    def __init__(self, part: Part, limit: int) -> None:
        self._part, self._limit = part, limit
        self._sha = sha256()
        self.size = 0

    def __call__(self, data: bytes) -> None:
        self.size += len(data)
        self.check(self.size)
        self._sha.update(data)
        self._part.write(data)

    def check(self, size: int) -> None:
        if size > self._limit:
            raise FileTooLargeError(f"a file has at most {self._limit:,} bytes here (PENTAD_FILE_BYTES)")

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()


def digest_of(data: bytes) -> str:
    """Return the name of a content: the same bytes have the same."""
    return f"sha256:{sha256(data).hexdigest()}"


@contextmanager
def _opened_file(store: FileStore, place: Place, path: str, there: FileInfo | None) -> Iterator[OpenFile | None]:
    if there is None:
        yield None
        return
    file = store.open(place, path)
    try:
        yield file
    finally:
        file.close()


def _blocks(file: OpenFile | None) -> Iterator[bytes]:
    at = 0
    while file is not None and (block := file.read(at, _BLOCK)):
        at += len(block)
        yield block


def _opened(storage: StorageUrl) -> FileStore:
    return LocalFiles(storage.folder) if storage.is_local else ObjectFiles(*storage.open())


async def _in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread. What storage raises is an outage."""
    try:
        return await asyncio.to_thread(work)
    except PentadError:
        raise
    except Exception as error:
        raise OutageError(f"the place of the sessions' files is unavailable: {_said(error)}") from error


def _said(error: Any) -> str:
    """Say what has failed, without the place: its path is the operator's business."""
    return getattr(error, "strerror", None) or type(error).__name__
