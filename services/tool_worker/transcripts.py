"""Transcripts of any task of a tenant, as the memory sees them: from Redis while they are there, else from records."""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.ids import shard_in
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import TaskKeys
from pentad.shared.records.record_store import Records
from pentad.shared.segments.passages import owned
from pentad.shared.store.store import Store

Messages = Sequence[Mapping[str, Any]]


class Transcripts:
    """Reads transcripts to open anchors. Raises ``OutageError`` while a store is unavailable, and ``DamagedError``."""

    def __init__(self, store: Store, records: Records, shards: int) -> None:
        self._store, self._records, self._shards = store, records, shards

    async def read(self, tenant: str, task: str) -> Messages | None:
        """Return the messages, with the user of each; None when the tenant has no such task."""
        shard = shard_in(task, self._shards)
        if shard is None:
            return None
        keys = TaskKeys(shard, tenant, task)
        raw, log = await self._store.run("said", [keys.header, keys.log], [])
        header = task_header(tenant, task, pairs(raw))
        if header is not None:
            return owned([shown(entry) for entry in log], header.user)
        record = await self._records.read(tenant, task)
        return None if record is None else owned(record.messages, record.task.user_id or "")
