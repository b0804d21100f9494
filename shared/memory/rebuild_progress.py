"""Progress of a rebuild of the memory, kept in Redis, so that another archiver can continue after a kill."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.keys import MEMORY_REBUILD, MEMORY_REBUILD_LATER, MEMORY_REBUILD_LEASE, REBUILD_TTL_S
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Argument, Store

LEASE_S = 15.0
"""Seconds after which others may continue the rebuild of an archiver that is not heard of."""
MOST_FAILURES = 20
"""Number of failed tasks that are named."""


class RebuildStage(StrEnum):
    """The stages of a rebuild, in order."""

    FORGOTTEN = "forgotten"
    """Notes of what was forgotten are restored in the memory's own store."""
    LIVE = "live"
    """Tasks in Redis are written."""
    RECORDS = "records"
    LINKS = "links"
    """Links to other tasks are written: edges added by hand, and what a model has extracted."""
    LINKS_AGAIN = "links again"
    """Links are written once more, now that the ends of all of them exist."""
    ENDED = "ended"


@immutable
class RebuildProgress:
    """The state of a rebuild. Times are in ms since the epoch."""

    id: str
    stage: RebuildStage
    cursor: str
    """Last finished task of the stage, as ``TENANT/TASK``; '': none yet."""
    started_at: int
    ended_at: int = 0
    """Time of its end; 0: it has not ended."""
    total: int = 0
    """Number of tasks in Redis and of records at the start."""
    done: int = 0
    """Number of finished tasks, failed ones included."""
    failed: int = 0
    left_out: int = 0
    """Number of edges that were added by hand under an earlier version, which no record describes."""
    failures: str = ""
    """Some failed tasks and why they failed, one a line."""
    waits_for: str = ""
    """Problem that the rebuild waits for to pass; '': none."""

    def from_the_start(self) -> "RebuildProgress":
        """Return the same rebuild before its first stage."""
        return RebuildProgress(self.id, RebuildStage.FORGOTTEN, "", self.started_at)

    @property
    def has_ended(self) -> bool:
        return self.stage is RebuildStage.ENDED


class Rebuilds:
    """Reads and writes the progress. All methods raise ``OutageError`` while Redis is unavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> RebuildProgress | None:
        """Return the running rebuild, or the last one; None: there was none lately."""
        raw = await self._store.call("HGETALL", MEMORY_REBUILD)
        return progress_in({key.decode(): value.decode() for key, value in zip(raw[::2], raw[1::2], strict=True)})

    async def start(self) -> RebuildProgress:
        """Begin a rebuild, unless one is running; return the running one."""
        now = await self.read()
        if now is None or now.has_ended:
            await self._store.call("DEL", MEMORY_REBUILD_LATER)
            now = RebuildProgress(random_hex(16), RebuildStage.FORGOTTEN, "", await self._store.clock())
            await self._keep(now)
        return now

    async def claim(self, who: str) -> bool:
        """Claim the rebuild for `LEASE_S`, or renew the claim. Whether this archiver has it."""
        wait_ms = round(LEASE_S * 1000)
        if await self._store.call("SET", MEMORY_REBUILD_LEASE, who, "NX", "PX", wait_ms) is not None:
            return True
        if not await self._is_mine(who):
            return False
        await self._store.call("PEXPIRE", MEMORY_REBUILD_LEASE, wait_ms)
        return True

    async def leave(self, who: str) -> None:
        """Release the claim, so that another archiver can continue."""
        if await self._is_mine(who):
            await self._store.call("DEL", MEMORY_REBUILD_LEASE)

    async def keep(self, progress: RebuildProgress, who: str) -> bool:
        """Store the progress; whether this archiver still has the claim. Work that is done twice does no harm."""
        if not await self._is_mine(who):
            return False
        await self._keep(progress)
        return True

    async def put_off(self, actor: str) -> None:
        """Put a task off until all others are written."""
        await self._store.call("SADD", MEMORY_REBUILD_LATER, actor)
        await self._store.call("EXPIRE", MEMORY_REBUILD_LATER, REBUILD_TTL_S)

    async def later(self) -> list[str]:
        """Return the tasks that were put off."""
        return sorted(name.decode() for name in await self._store.call("SMEMBERS", MEMORY_REBUILD_LATER))

    async def _is_mine(self, who: str) -> bool:
        there: bytes | None = await self._store.call("GET", MEMORY_REBUILD_LEASE)
        return there is not None and there.decode() == who

    async def _keep(self, progress: RebuildProgress) -> None:
        fields: list[Argument] = []
        for name, value in asdict(progress).items():
            fields += [name, str(value)]
        await self._store.call("HSET", MEMORY_REBUILD, *fields)
        await self._store.call("EXPIRE", MEMORY_REBUILD, REBUILD_TTL_S)


def progress_in(kept: Mapping[str, str]) -> RebuildProgress | None:
    """Return the rebuild that a hash describes. Pure."""
    if "id" not in kept or "stage" not in kept:
        return None
    numbers = {
        name: int(kept.get(name, 0)) for name in ("started_at", "ended_at", "total", "done", "failed", "left_out")
    }
    return RebuildProgress(
        id=kept["id"],
        stage=RebuildStage(kept["stage"]),
        cursor=kept.get("cursor", ""),
        failures=kept.get("failures", ""),
        waits_for=kept.get("waits_for", ""),
        **numbers,
    )
