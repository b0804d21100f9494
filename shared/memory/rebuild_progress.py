"""How far a rebuild of the memory is, kept in Redis: whoever is killed is gone on for by the next archiver."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.keys import MEMORY_REBUILD, MEMORY_REBUILD_LATER, MEMORY_REBUILD_LEASE, REBUILD_TTL_S
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Argument, Store

LEASE_S = 15.0
"""How long an archiver that is heard of no more keeps others from going on."""
MOST_FAILURES = 20
"""Tasks that failed which are named."""


class RebuildStage(StrEnum):
    """What a rebuild is at, in this order."""

    FORGOTTEN = "forgotten"
    """What is not to come back is noted in the memory's own store again."""
    LIVE = "live"
    """Tasks in Redis."""
    RECORDS = "records"
    LINKS = "links"
    """What rests on what other tasks say: edges added by hand, and what a model has extracted."""
    LINKS_AGAIN = "links again"
    """The same once more: then the ends of all are there."""
    ENDED = "ended"


@immutable
class RebuildProgress:
    """A rebuild. Times are in ms since the epoch."""

    id: str
    stage: RebuildStage
    cursor: str
    """The last task of the stage that was done, as ``TENANT/TASK``; '': none yet."""
    started_at: int
    ended_at: int = 0
    """0: it has not ended."""
    total: int = 0
    """Tasks in Redis and records, as many as there were at the start."""
    done: int = 0
    """Of them those that were gone through, those that failed included."""
    failed: int = 0
    left_out: int = 0
    """Edges that were added by hand under an earlier version: no record says what they were."""
    failures: str = ""
    """Some that failed, and why, in lines."""
    waits_for: str = ""
    """What is away, so that nothing happens now; '': nothing."""

    def from_the_start(self) -> "RebuildProgress":
        """The same one, of which nothing is done yet."""
        return RebuildProgress(self.id, RebuildStage.FORGOTTEN, "", self.started_at)

    @property
    def has_ended(self) -> bool:
        return self.stage is RebuildStage.ENDED


class Rebuilds:
    """Reads and keeps it. All raise ``OutageError`` while Redis is away."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> RebuildProgress | None:
        """The one that goes on, or the last; None: there was none lately."""
        raw = await self._store.call("HGETALL", MEMORY_REBUILD)
        return progress_in({key.decode(): value.decode() for key, value in zip(raw[::2], raw[1::2], strict=True)})

    async def start(self) -> RebuildProgress:
        """Begin one, unless one goes on: then that one."""
        now = await self.read()
        if now is None or now.has_ended:
            await self._store.call("DEL", MEMORY_REBUILD_LATER)
            now = RebuildProgress(random_hex(16), RebuildStage.FORGOTTEN, "", await self._store.clock())
            await self._keep(now)
        return now

    async def claim(self, who: str) -> bool:
        """Be the one who goes on with it, for `LEASE_S`; repeated, for as long again."""
        wait_ms = round(LEASE_S * 1000)
        if await self._store.call("SET", MEMORY_REBUILD_LEASE, who, "NX", "PX", wait_ms) is not None:
            return True
        if not await self._is_mine(who):
            return False
        await self._store.call("PEXPIRE", MEMORY_REBUILD_LEASE, wait_ms)
        return True

    async def leave(self, who: str) -> None:
        """Let another one go on with it."""
        if await self._is_mine(who):
            await self._store.call("DEL", MEMORY_REBUILD_LEASE)

    async def keep(self, progress: RebuildProgress, who: str) -> bool:
        """Keep how far it is; whether this is still the one who goes on with it. What is done twice does no harm."""
        if not await self._is_mine(who):
            return False
        await self._keep(progress)
        return True

    async def put_off(self, actor: str) -> None:
        """Come to this task once more, when all others are there."""
        await self._store.call("SADD", MEMORY_REBUILD_LATER, actor)
        await self._store.call("EXPIRE", MEMORY_REBUILD_LATER, REBUILD_TTL_S)

    async def later(self) -> list[str]:
        """The tasks that were put off."""
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
    """The rebuild that a hash says. Pure."""
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
