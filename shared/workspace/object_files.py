"""Workspaces as objects under an fsspec URL (S3, GCS, ...).

Objects have neither locks nor, everywhere, conditional writes: of two writers of one file the later one counts, and two
that fill a workspace at the same time may both be refused. An object is copied into its place as a whole.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any

from pydantic import ValidationError

from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError
from pentad.shared.workspace.file_paths import is_path
from pentad.shared.workspace.file_store import (
    LATE_PART,
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

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "crc32c", "generation")


class ObjectFiles:
    """Keeps workspaces below ``root`` in an opened fsspec file system."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs, self._root = fs, root.rstrip("/")
        self._lock = Lock()
        """Writers of this process at least take turns."""

    def open(self, place: Place, path: str) -> OpenFile:
        found = self.info(place, path)
        if found is None:
            raise FileMissingError(f"there is no file {path!r} in this workspace")
        return _Object(self._fs, self._file(place, path), found)

    def info(self, place: Place, path: str) -> FileInfo | None:
        name = self._file(place, path)
        self._fs.invalidate_cache()  # others write too
        try:
            about = self._fs.info(name)
        except FileNotFoundError:
            return None
        return _info_of(path, about) if about.get("type") == "file" else None

    def listing(self, place: Place) -> Listing:
        folder = f"{self._home(place)}/files"
        objects = self._objects(folder)
        named = [(name.removeprefix(f"{folder}/"), about) for name, about in objects]
        found = [_info_of(path, about) for path, about in named if is_path(path)]
        size = sum(int(about.get("size") or 0) for _, about in objects)
        return Listing(tuple(sorted(found, key=lambda file: file.path)), size, len(objects))

    @contextmanager
    def changing(self, place: Place) -> Iterator[None]:
        with self._lock:
            self._sweep(place)
            yield

    def new_part(self, place: Place, name: str) -> Part:
        home = self._home(place)
        about = f"{home}/about"
        if not self._fs.exists(about):
            self._fs.pipe_file(about, place.about())
        others = [there for there, _ in self._objects(f"{home}/parts") if not there.endswith(f"/{name}")]
        if len(others) >= MAX_PARTS:
            raise FileRefusedError(
                f"{MAX_PARTS} files are on their way into this workspace already: try again when one is there"
            )
        return _ObjectPart(self._fs, f"{home}/parts/{name}", name)

    def put(self, place: Place, part: Part, path: str) -> FileInfo:
        name, target = f"{self._home(place)}/parts/{part.name}", self._file(place, path)
        *above, _ = path.split("/")
        for number in range(1, len(above) + 1):  # objects would allow what a folder cannot hold
            if self.info(place, "/".join(above[:number])) is not None:
                raise FileRefusedError(f"{path!r} cannot be a file: {above[number - 1]!r} on its way is a file")
        if self._objects(target):
            raise FileRefusedError(f"{path!r} is a folder")
        self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        try:
            self._fs.cp_file(name, target)
        except FileNotFoundError:
            raise FileRefusedError(LATE_PART) from None
        self._remove(name)
        found = self.info(place, path)
        if found is None:
            raise FileRefusedError("the workspace was erased meanwhile")
        return found

    def remove(self, place: Place, path: str) -> None:
        if self.info(place, path) is None:
            raise FileMissingError(f"there is no file {path!r} in this workspace")
        self._remove(self._file(place, path))

    def receipt(self, place: Place, call: str) -> Receipt | None:
        self._fs.invalidate_cache()
        try:
            return Receipt.model_validate_json(self._fs.cat_file(self._note(place, call)))
        except (FileNotFoundError, ValidationError):
            return None

    def has_part(self, place: Place, name: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(f"{self._home(place)}/parts/{name}"))

    def note(self, place: Place, call: str, receipt: Receipt) -> None:
        self._fs.pipe_file(self._note(place, call), receipt.model_dump_json().encode())

    def forget(self, place: Place, call: str) -> None:
        self._remove(self._note(place, call))

    def erase(self, place: Place) -> None:
        self._fs.invalidate_cache()
        with suppress(FileNotFoundError):
            self._fs.rm(self._home(place), recursive=True)

    def places(self) -> Iterator[Place]:
        self._fs.invalidate_cache()
        for tenant in self._names(self._root):
            for name in self._names(f"{self._root}/{tenant}"):
                with suppress(FileNotFoundError):
                    place = place_in(self._fs.cat_file(f"{self._root}/{tenant}/{name}/about"))
                    if place is not None and place.path == f"{tenant}/{name}":
                        yield place

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(str(path).rstrip("/").rpartition("/")[2] for path in self._fs.ls(folder, detail=False))
        except FileNotFoundError:
            return []

    def _home(self, place: Place) -> str:
        return f"{self._root}/{place.path}"

    def _file(self, place: Place, path: str) -> str:
        return f"{self._home(place)}/files/{path}"

    def _note(self, place: Place, call: str) -> str:
        return f"{self._home(place)}/calls/{part_of_call(call)}"

    def _objects(self, folder: str) -> list[tuple[str, dict[str, Any]]]:
        """The objects below a folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(folder, detail=True)
        except FileNotFoundError:
            return []
        return [(str(name), about) for name, about in found.items() if str(name) != folder]

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(name)

    def _sweep(self, place: Place) -> None:
        """Remove what killed writers left, and notes of calls that cannot come again."""
        home, now = self._home(place), time.time()
        notes = sorted(self._objects(f"{home}/calls"), key=lambda note: _modified(note[1]), reverse=True)
        for number, (name, about) in enumerate(notes):
            if number >= MAX_RECEIPTS or _is_older(about, now - RECEIPT_KEPT_S):
                self._remove(name)
        for name, about in self._objects(f"{home}/parts"):
            if _is_older(about, now - PART_KEPT_S):
                self._remove(f"{home}/calls/{name.rpartition('/')[2]}")  # first: without its part it would say "made"
                self._remove(name)


class _Object:
    """An object that is read in ranges."""

    def __init__(self, fs: Any, name: str, info: FileInfo) -> None:
        self._fs, self._name, self.info = fs, name, info

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.info.size)
        if offset >= end:
            return b""
        try:
            return bytes(self._fs.cat_file(self._name, start=offset, end=end))
        except FileNotFoundError:
            raise FileMissingError(f"the file {self.info.path!r} was removed while it was read") from None

    def close(self) -> None:
        """Do nothing: each range is a request of its own."""


class _ObjectPart:
    """A part that is written as an object."""

    def __init__(self, fs: Any, path: str, name: str) -> None:
        self._fs, self._path, self.name = fs, path, name
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._file = fs.open(path, "wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        if not self._file.closed:
            self._file.close()

    def discard(self) -> None:
        self.finish()
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._path)


def _info_of(path: str, about: dict[str, Any]) -> FileInfo:
    size, modified = int(about.get("size") or 0), _modified(about)
    tag = next((about[name] for name in _TAGS if about.get(name)), None)
    known = f"{tag}" if tag is not None else f"{size}-{round(_written_s(about) * 1_000_000)}"
    return FileInfo(path, size, modified, sha256(known.encode()).hexdigest()[:32])


def _written_s(about: dict[str, Any]) -> float:
    """When an object was written, in seconds; 0 where its store does not say."""
    at = next((about[name] for name in _TIMES if about.get(name)), None)
    if isinstance(at, str):
        with suppress(ValueError):
            at = datetime.fromisoformat(at)
    if isinstance(at, datetime):
        return at.timestamp()
    return float(at) if isinstance(at, int | float) else 0.0


def _modified(about: dict[str, Any]) -> int:
    return int(_written_s(about) * 1000)


def _is_older(about: dict[str, Any], time_s: float) -> bool:
    """Whether an object is known to have been written before this time."""
    return 0 < _written_s(about) < time_s
