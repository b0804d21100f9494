"""The record store: finished tasks as JSON documents under an fsspec URL (a folder, S3, GCS)."""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from contracts.records import TaskRecord
from shared.errors import OutageError, SettingsError

log = logging.getLogger(__name__)
T = TypeVar("T")


class Records:
    """Reads and writes whole task records. Writing one again replaces it, unless the one there knows more.

    Nothing is opened before the first use. Raises ``SettingsError`` for a kind of store that is not known.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        _check(self._url)
        self._opened: tuple[Any, str] | None = None

    async def write(self, record: TaskRecord) -> None:
        """Keep a record. Raises ``OutageError`` when the store does not take it."""
        await self._try(lambda fs, root: _keep(fs, _path(root, record.tenant_id, record.task.task_id), record))

    async def read(self, tenant: str, task: str) -> TaskRecord | None:
        """A task's record, or None. Raises ``OutageError`` when the store does not answer."""

        def load(fs: Any, root: str) -> bytes | None:
            try:
                data: bytes = fs.cat_file(_path(root, tenant, task))
            except FileNotFoundError:
                return None
            return data

        data = await self._try(load)
        return None if data is None else TaskRecord.model_validate_json(data)

    def _place(self) -> tuple[Any, str]:
        """The file system and the path of the records in it."""
        if self._opened is None:
            from fsspec.core import url_to_fs

            self._opened = url_to_fs(self._url)
        return self._opened

    async def _try(self, work: Callable[[Any, str], T]) -> T:
        try:
            return await asyncio.to_thread(lambda: work(*self._place()))
        except Exception as error:
            raise OutageError(f"the record store {self._url} does not serve: {error}") from error


def _check(url: str) -> None:
    """A kind of store that nobody knows will not serve later either. Raises ``SettingsError``."""
    kind, separator, _ = url.partition("://")
    if not separator or kind == "file":
        return
    from fsspec import get_filesystem_class

    try:
        get_filesystem_class(kind)
    except (ValueError, ImportError) as error:
        raise SettingsError(f"PENTAD_RECORDS_URL names a store {kind}:// that cannot be used here: {error}") from None


def _path(root: str, tenant: str, task: str) -> str:
    return f"{root}/{tenant}/{task}.json"


def _keep(fs: Any, path: str, record: TaskRecord) -> None:
    """Objects are put whole, and the same again changes nothing; a file is replaced by one writer at a time."""
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    if "file" in fs.protocol:
        _replace(fs, path, record)
    elif not _has_longer(fs, path, record):
        fs.pipe_file(path, record.to_json())


def _has_longer(fs: Any, path: str, record: TaskRecord) -> bool:
    """Whether a longer one is there: transcripts only grow, so ours comes from a writer that was overtaken."""
    try:
        there = TaskRecord.model_validate_json(fs.cat_file(path))
    except FileNotFoundError:
        return False
    except ValidationError:
        log.warning("%s cannot be read and is written anew", path)
        return False
    return len(there.messages) > len(record.messages)


def _replace(fs: Any, path: str, record: TaskRecord) -> None:
    """Write beside, then move: a killed writer leaves no half record, and what it left is written over."""
    beside = f"{path}.part"
    with open(beside, "ab") as part:
        _lock(part.fileno(), beside)
        if _has_longer(fs, path, record):
            os.unlink(beside)
            return
        part.truncate(0)
        part.write(record.to_json())
        part.flush()
        os.replace(beside, path)


def _lock(handle: int, path: str) -> None:
    """Be the only one who writes this file, until it is closed. Raises ``OSError`` when somebody else does.

    Never waits: a writer may be paused for long, and only its own record is to be late then.
    """
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.path.samestat(os.fstat(handle), os.stat(path)):
        raise BlockingIOError(f"{path} was moved into its place by another writer just now")
