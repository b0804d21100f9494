"""Rebuilds of the memory: an operator starts one and reads its progress, an archiver does the work."""

from pentad.contracts.ids import rfc3339
from pentad.contracts.memories import MemoryDamage, MemoryRebuild
from pentad.shared.memory.memory_counts import MemoryCounts
from pentad.shared.memory.rebuild_progress import Rebuilds
from pentad.shared.store.store import Store


class MemoryRebuilds:
    """Starts rebuilds and reads their progress. Raises ``OutageError`` if Redis is unavailable."""

    def __init__(self, store: Store) -> None:
        self._rebuilds, self._counts = Rebuilds(store), MemoryCounts(store)

    async def start(self) -> MemoryRebuild:
        """Start a rebuild unless one is running, and return its progress."""
        await self._rebuilds.start()
        return await self.progress()

    async def progress(self) -> MemoryRebuild:
        """Return the progress of the running rebuild or the result of the last one, with the faults of the stores."""
        now = await self._rebuilds.read()
        damage = [
            MemoryDamage.model_validate({"store": each.store, "what": each.what, "do": each.do})
            for each in await self._counts.damages()
        ]
        if now is None:
            return MemoryRebuild(stage=None, damage=damage)
        return MemoryRebuild(
            stage=now.stage.value,
            done=now.done,
            total=now.total,
            failed=now.failed,
            left_out=now.left_out,
            failures=now.failures.splitlines(),
            waits_for=now.waits_for or None,
            started_at=rfc3339(now.started_at),
            ended_at=rfc3339(now.ended_at) if now.ended_at else None,
            damage=damage,
        )
