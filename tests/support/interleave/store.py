"""A store whose commands wait until the scheduler lets one happen: the interleaving points of a simulated process."""

import asyncio
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from contracts.ids import rfc3339
from shared.state.store import Argument, Script, Store
from tests.support.interleave.clockwork import VirtualLoop
from tests.support.interleave.server import Server

_LATE = 0.15
"""Share of the replies that are on their way for a while: a kill in between leaves a command without its reply."""


class SteppedStore(Store):
    """One process's way to Redis. Commands leave in the order in which they were issued, as the real store's do."""

    def __init__(self, server: Server, loop: VirtualLoop, scripts: dict[str, Script], chance: Random) -> None:
        self.url = "redis://127.0.0.1:1/0"
        self.scripts = scripts
        self.trouble = None
        self._clock = (0, float("-inf"))
        self.redis = _Facade(self)
        self.lossy = 0.0
        """Share of the commands whose reply is lost, half of them before they are executed."""
        self.dead = False
        self.server, self._loop, self._chance = server, loop, chance
        self._waiting: deque[tuple[asyncio.Future[Any], tuple[Argument, ...]]] = deque()
        self._late: tuple[asyncio.Future[Any], Any] | None = None

    @property
    def has_work(self) -> bool:
        """Whether a command or a reply waits to happen."""
        return bool(self._waiting) or self._late is not None

    def _enqueue(self, future: asyncio.Future[Any], command: tuple[Argument, ...]) -> None:
        if self.dead:
            future.cancel()
        else:
            self._waiting.append((future, command))

    def step(self) -> None:
        """Let one thing happen: a reply arrive, or a command be executed."""
        if self._late is not None:
            (future, reply), self._late = self._late, None
            self._settle(future, reply)
            return
        future, command = self._waiting.popleft()
        lost = self._chance.random() < self.lossy
        executed = not lost or self._chance.random() < 0.5
        reply = self.server.execute(command, self._loop.now_ms) if executed else None
        if lost:
            reply = ConnectionError("the simulated connection broke")
        if self._chance.random() < _LATE:
            self._late = (future, reply)
        else:
            self._settle(future, reply)

    def die(self) -> None:
        """Nothing that waits happens any more, and nothing new is taken."""
        self.dead = True
        for future, _ in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._late = None

    async def now(self) -> str:
        return rfc3339(await self.clock())

    async def close(self) -> None:
        """The end of a process that stopped in order."""
        self.die()


class _Facade:
    """The few commands that are sent through redis-py's own methods."""

    def __init__(self, store: SteppedStore) -> None:
        self._store = store

    async def xgroup_create(self, stream: str, group: str, id: str, mkstream: bool) -> None:  # noqa: A002
        await self._store.call("XGROUP", "CREATE", stream, group, id, *(("MKSTREAM",) if mkstream else ()))

    async def xinfo_groups(self, stream: str) -> list[Mapping[str, Any]]:
        groups = await self._store.call("XINFO", "GROUPS", stream)
        return [dict(zip((k.decode() for k in g[::2]), g[1::2], strict=True)) for g in groups]

    async def xread(self, streams: Mapping[str, str], count: int, block: int) -> Any:
        (stream, last), *_ = streams.items()
        reply = await self._store.call("XREAD", "COUNT", count, "STREAMS", stream, last)
        if not reply:
            await self._store.server.bell.wait(block / 1000)
        return reply

    async def xpending_range(self, key: str, group: str, *, min: str, max: str, count: int, consumername: str) -> Any:  # noqa: A002
        found = await self._store.call("XPENDING", key, group, min, max, count, consumername)
        return [{"message_id": p[0]} for p in found]

    async def xrange(self, key: str, first: str, last: str) -> Any:
        found = await self._store.call("XRANGE", key, first, last)
        return [(i, dict(zip(f[::2], f[1::2], strict=True))) for i, f in found]
