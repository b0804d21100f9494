"""An operator has the memory rebuilt, and sees how far that is; an archiver does it."""

from pentad.contracts.ids import rfc3339
from pentad.contracts.memories import MemoryDamage, MemoryRebuild
from pentad.shared.memory.memory_counts import MemoryCounts
from pentad.shared.memory.rebuild_progress import Rebuilds
from pentad.shared.store.store import Store


class MemoryRebuilds:
    """Raises ``OutageError`` while Redis is away."""

    def __init__(self, store: Store) -> None:
        self._rebuilds, self._counts = Rebuilds(store), MemoryCounts(store)

    async def start(self) -> MemoryRebuild:
        """Have it begun, unless one goes on; how far that is."""
        await self._rebuilds.start()
        return await self.progress()

    async def progress(self) -> MemoryRebuild:
        """How far the one is that goes on, or how the last went; and what is wrong with the stores."""
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
