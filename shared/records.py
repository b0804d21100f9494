"""The record store: finished tasks as JSON documents under an fsspec URL (a folder, S3, GCS)."""

import asyncio
from typing import Any

from contracts.records import TaskRecord
from shared.errors import OutageError


class Records:
    """Reads and writes whole task records. Writing one again replaces it, unless the one there knows more."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._opened: Any = None

    async def write(self, record: TaskRecord) -> None:
        """Keep a record. Raises ``OutageError`` when the store does not take it."""
        path = self._path(record.tenant_id, record.task.task_id)
        await self._try(lambda fs: None if _has_longer(fs, path, record) else _replace(fs, path, record.to_json()))

    async def read(self, tenant: str, task: str) -> TaskRecord | None:
        """A task's record, or None. Raises ``OutageError`` when the store does not answer."""
        path = self._path(tenant, task)

        def load(fs: Any) -> bytes | None:
            try:
                data: bytes = fs.cat_file(path)
            except FileNotFoundError:
                return None
            return data

        data = await self._try(load)
        return None if data is None else TaskRecord.model_validate_json(data)

    def _path(self, tenant: str, task: str) -> str:
        return f"{self._root()}/{tenant}/{task}.json"

    def _root(self) -> str:
        return self._url.split("://", 1)[-1] if "://" in self._url else self._url

    def _filesystem(self) -> Any:
        if self._opened is None:
            from fsspec.core import url_to_fs

            self._opened = url_to_fs(self._url)[0]
        return self._opened

    async def _try(self, work: Any) -> Any:
        try:
            return await asyncio.to_thread(lambda: work(self._filesystem()))
        except Exception as error:
            raise OutageError(f"the record store {self._url} does not serve: {error}") from error


def _has_longer(fs: Any, path: str, record: TaskRecord) -> bool:
    """Whether a longer one is there: transcripts only grow, so ours comes from a writer that was overtaken."""
    try:
        there = TaskRecord.model_validate_json(fs.cat_file(path))
    except FileNotFoundError:
        return False
    return len(there.messages) > len(record.messages)


def _replace(fs: Any, path: str, data: bytes) -> None:
    """Write beside, then move: a killed writer leaves no half record."""
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    if "file" in fs.protocol:
        beside = f"{path}.{id(data):x}.part"
        fs.pipe_file(beside, data)
        fs.mv(beside, path)
    else:
        fs.pipe_file(path, data)
