"""How far the long-term memory is behind what was said."""

import asyncio
from typing import Any

from pentad.contracts.streams import REMEMBER
from pentad.shared.store.store import Store

_GROUP = str(REMEMBER.group)


class MemoryLag:
    """Reads the streams of tasks that have ended. Raises ``OutageError`` when Redis is away."""

    def __init__(self, store: Store, shards: int) -> None:
        self._store, self._shards = store, shards

    async def seconds(self) -> float:
        """How long the task that has waited longest waits to be remembered, whoever's it is; 0: none waits."""
        now = await self._store.clock()
        oldest = await asyncio.gather(*(self._oldest(REMEMBER.key(shard)) for shard in range(self._shards)))
        return max((max(0, now - at) / 1000 for at in oldest if at is not None), default=0.0)

    async def _oldest(self, key: str) -> int | None:
        """When the oldest entry came that nobody has finished, in ms: one that is in work, or one that is unread."""
        group = next((g for g in await self._groups(key) if g[b"name"].decode() == _GROUP), None)
        read = "-" if group is None else f"({group[b'last-delivered-id'].decode()}"
        waiting = [entry for entry, _ in await self._store.call("XRANGE", key, read, "+", "COUNT", 1)]
        if group is not None and group[b"pending"]:
            waiting += [entry for entry, *_ in await self._store.call("XPENDING", key, _GROUP, "-", "+", 1)]
        return min((int(entry.split(b"-")[0]) for entry in waiting), default=None)

    async def _groups(self, key: str) -> list[dict[bytes, Any]]:
        return await self._store.groups(key) if await self._store.call("EXISTS", key) else []
