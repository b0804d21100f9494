"""The read side: what clients may see of a tenant's sessions and tasks. Nothing here writes."""

import asyncio
from typing import Any, Protocol

from pydantic_core import from_json

from contracts.ids import rfc3339, shard_in, shard_of
from contracts.records import Task, TaskRecord
from shared.state.headers import TaskHeader
from shared.state.keys import SessionKeys, TaskKeys, session_index, task_index
from shared.state.pages import Entry, Page, newest_first
from shared.state.sessions import last_turns, load_task, load_tasks
from shared.state.store import Store
from shared.state.tool_registry import published
from shared.state.transcript import shown

_LOG_CHUNK = 500
_EXAMINED = 20_000
"""Index entries that one request looks at: a rare status in a long list comes in several pages."""


class RecordReader(Protocol):
    """Where archived tasks are read from."""

    async def read(self, tenant: str, task: str) -> TaskRecord | None:
        """A task's record, or None. Raises ``OutageError``."""


class Queries:
    """Reads for the gateway. All raise ``OutageError`` when a store does not serve."""

    def __init__(self, store: Store, records: RecordReader, shards: int) -> None:
        self._store, self._records, self._shards = store, records, shards

    def session_keys(self, tenant: str, session: str) -> SessionKeys:
        """The keys of a session."""
        return SessionKeys(shard_of(tenant, session, self._shards), tenant, session)

    def task_keys(self, tenant: str, task: str) -> TaskKeys | None:
        """The keys of a task, or None when the id is not one of ours."""
        shard = shard_in(task, self._shards)
        return None if shard is None else TaskKeys(shard, tenant, task)

    async def sessions(self, tenant: str, limit: int, after: Entry | None) -> Page:
        """A tenant's sessions, the one with the newest message first."""
        items: list[Entry] = []
        async for piece in newest_first(self._store, lambda s: session_index(s, tenant), self._shards, after):
            items += piece
            if len(items) > limit:
                break
        shown_now = await asyncio.gather(*(self._session(tenant, entry) for entry in items[:limit]))
        return Page(list(shown_now), items[limit - 1].cursor() if len(items) > limit else None)

    async def _session(self, tenant: str, entry: Entry) -> dict[str, Any]:
        keys = self.session_keys(tenant, entry.member)
        newest = await last_turns(self._store, keys, 1)
        last = newest[-1].content[:200] if newest else ""
        return {"session_id": entry.member, "updated_at": rfc3339(entry.score), "last": last}

    async def knows_session(self, keys: SessionKeys) -> bool:
        """Whether anything was ever said in it."""
        return bool(await self._store.call("EXISTS", keys.header))

    async def messages(self, keys: SessionKeys) -> list[dict[str, Any]]:
        """The last messages of a session, oldest first."""
        turns: list[dict[str, Any]] = [from_json(raw) for raw in await self._store.call("LRANGE", keys.turns, 0, -1)]
        return turns

    async def session_tasks(self, keys: SessionKeys) -> list[dict[str, Any]]:
        """The tasks that a session's last messages belong to and that are not archived, oldest first."""
        turns = await self.messages(keys)
        live, done = await self._store.call("HMGET", keys.header, "live", "done")
        ids = [turn["task_id"] for turn in turns] + [task.decode() for task in (done, live) if task]
        found = await load_tasks(self._store, keys.shard, keys.tenant, list(dict.fromkeys(ids)))
        return [header.describe().model_dump(mode="json") for header in found if header is not None]

    async def tasks(
        self, tenant: str, limit: int, after: Entry | None, status: str | None = None, session: str | None = None
    ) -> Page:
        """A tenant's tasks, the newest first, those alone that have this status and session when given."""
        items: list[dict[str, Any]] = []
        examined, last = 0, after
        async for piece in newest_first(self._store, lambda s: task_index(s, tenant), self._shards, after):
            for first in range(0, len(piece), limit):
                chunk = piece[first : first + limit]
                for entry, task in zip(chunk, await self._load(tenant, chunk), strict=True):
                    if len(items) == limit or examined == _EXAMINED:
                        return Page(items, last.cursor() if last else None)
                    examined, last = examined + 1, entry
                    if task is not None and status in (None, task.status) and session in (None, task.session_id):
                        items.append(task.model_dump(mode="json"))
        return Page(items, None)

    async def _load(self, tenant: str, entries: list[Entry]) -> list[Task | None]:
        return list(await asyncio.gather(*(self.task(tenant, entry.member) for entry in entries)))

    async def header(self, tenant: str, task: str) -> TaskHeader | None:
        """A task's header, or None when it is unknown or archived."""
        keys = self.task_keys(tenant, task)
        return None if keys is None else await load_task(self._store, keys)

    async def task(self, tenant: str, task: str) -> Task | None:
        """A task, or None when it is unknown to this tenant."""
        header = await self.header(tenant, task)
        if header is not None:
            return header.describe()
        record = await self.record(tenant, task)
        return None if record is None else record.task

    async def record(self, tenant: str, task: str) -> TaskRecord | None:
        """An archived task's record."""
        return None if self.task_keys(tenant, task) is None else await self._records.read(tenant, task)

    async def transcript(self, tenant: str, task: str) -> list[dict[str, Any]] | None:
        """A task's messages, or None when it is unknown to this tenant."""
        keys = self.task_keys(tenant, task)
        if keys is None:
            return None
        if await load_task(self._store, keys) is not None:
            messages: list[dict[str, Any]] = []
            while chunk := await self._store.call("LRANGE", keys.log, len(messages), len(messages) + _LOG_CHUNK - 1):
                messages += map(shown, chunk)
            # Archived while it was read: then the record has all of it.
            if await load_task(self._store, keys) is not None:
                return messages
        record = await self.record(tenant, task)
        return None if record is None else record.messages

    async def tools(self) -> list[dict[str, Any]]:
        """The tools that living workers have published, by name."""
        return [spec.model_dump(mode="json") for spec in (await published(self._store)).values()]
