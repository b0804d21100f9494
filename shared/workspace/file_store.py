"""The port for where workspaces are kept: a local folder, or objects under an fsspec URL. Its calls block."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from pentad.contracts.ids import is_external_id, is_identifier
from pentad.shared.immutable import immutable
from pentad.shared.workspace.file_errors import FileRefusedError

LATE_PART = "the file took too long to come, or its workspace was erased: send it again"
"""The text for a writer whose part has gone."""
MAX_FILES = 2_000
"""Files that a workspace may have."""
MAX_PARTS = 16
"""Files that may be on their way into one workspace at once."""
PART_KEPT_S = 3600.0
"""Seconds after which a part that was not written to belongs to a writer that was killed."""
RECEIPT_KEPT_S = 86_400.0
"""Seconds for which it is known that a call has made its change: it runs again sooner, or never."""
MAX_RECEIPTS = 256
"""Changes by calls that are known of one workspace; beyond it the oldest are forgotten."""


@immutable
class Place:
    """The place of one session's workspace."""

    tenant: str
    session: str

    def __post_init__(self) -> None:
        if not is_identifier(self.tenant) or not is_external_id(self.session):
            raise FileRefusedError(f"{self.tenant[:100]!r}/{self.session[:100]!r} names no session")

    @property
    def name(self) -> str:
        """Name of the place in its tenant's folder. File systems that know no capitals must not mix two sessions."""
        return sha256(f"{self.tenant}/{self.session}".encode()).hexdigest()[:40]

    @property
    def path(self) -> str:
        """Path of the place in the store."""
        return f"{self.tenant}/{self.name}"

    def about(self) -> bytes:
        """Return what is written beside the files, by which the session of a workspace is found."""
        return WorkspaceNote(tenant=self.tenant, session=self.session).model_dump_json().encode()


class WorkspaceNote(BaseModel):
    """The note beside the files of a workspace: whose it is."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tenant: str
    session: str


def place_in(note: bytes) -> Place | None:
    """Return the place that a note beside files names; None for one that cannot be read."""
    try:
        about = WorkspaceNote.model_validate_json(note)
        return Place(about.tenant, about.session)
    except (ValidationError, FileRefusedError):
        return None


def part_of_call(call: str) -> str:
    """Return the name of the part that a call makes, and of the note that it has become a file."""
    return sha256(call.encode(errors="replace")).hexdigest()[:40]


@immutable
class FileInfo:
    """A file as lists show it."""

    path: str
    size: int
    modified: int
    """Milliseconds since the epoch."""
    etag: str
    """Tag of this version of the file: another content has another tag."""


@immutable
class Listing:
    """The files of a workspace, by path."""

    files: tuple[FileInfo, ...]
    size: int
    """Bytes of all files, also of those whose names cannot be used."""
    count: int
    """Number of all files, likewise."""


class Receipt(BaseModel):
    """The note that a call has made its change, so that it makes it once."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    part: str
    """Name of the part that becomes the file."""
    path: str
    digest: str
    """SHA-256 of the file after the change."""
    told: str
    """Answer of the call."""


class OpenFile(Protocol):
    """A file that is open for reading. Another version may take its place meanwhile."""

    @property
    def info(self) -> FileInfo:
        """The version that is read."""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, fewer at its end."""

    def close(self) -> None:
        """Close the file. Safe to repeat."""


class Part(Protocol):
    """A file on its way into a workspace, which nobody sees before it is placed."""

    @property
    def name(self) -> str:
        """Name of the part among those of its workspace."""

    def write(self, data: bytes) -> None:
        """Append bytes."""

    def finish(self) -> None:
        """Write to the disk what was appended."""

    def discard(self) -> None:
        """Remove the part, unless it was placed. Safe to repeat."""


class FileStore(Protocol):
    """Workspaces of one kind. All raise ``FileRefusedError`` and its kinds, or what the storage raises."""

    def open(self, place: Place, path: str) -> OpenFile:
        """Open a file. Raises ``FileMissingError``."""

    def info(self, place: Place, path: str) -> FileInfo | None:
        """Return a file; None when there is none."""

    def listing(self, place: Place) -> Listing:
        """Return all files."""

    def changing(self, place: Place) -> AbstractContextManager[None]:
        """Be the only writer of a workspace for the length of a block, as far as the storage has locks."""

    def new_part(self, place: Place, name: str) -> Part:
        """Begin a part; one of this name is begun anew. Raises ``FileRefusedError`` when there are too many."""

    def put(self, place: Place, part: Part, path: str) -> FileInfo:
        """Let a finished part become this file, at once and as a whole. Within `changing`."""

    def remove(self, place: Place, path: str) -> None:
        """Remove a file. Within `changing`."""

    def receipt(self, place: Place, call: str) -> Receipt | None:
        """Return the note of a call; None when there is none."""

    def has_part(self, place: Place, name: str) -> bool:
        """Whether a part of this name is there."""

    def note(self, place: Place, call: str, receipt: Receipt) -> None:
        """Keep the note of a call. Within `changing`."""

    def forget(self, place: Place, call: str) -> None:
        """Drop the note of a call. Within `changing`."""

    def erase(self, place: Place) -> None:
        """Remove a workspace with all that is in it. Safe to repeat, also after a kill in its midst."""

    def places(self) -> Iterator[Place]:
        """Return every workspace that there is."""
