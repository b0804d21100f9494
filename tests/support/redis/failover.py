"""A Redis with a replica behind one address, as people run it, and the ways in which the replica takes over.

async with Redundant() as redis:
    store = Store(redis.url)
    await redis.demote_for(1.5)                     # the same server, read-only for a while; nothing is lost
    await redis.take_over("killed", lag_s=0.3)      # a new primary that lacks the writes of the last 0.3 s
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

from tests.support.processes.clocks import Clocks
from tests.support.redis.redis_server import Aof, RedisServer
from tests.support.redis.switch import Switch

End = Literal["killed", "paused", "demoted"]
"""End of the old primary. ``killed``: its process ends. ``paused``: it hangs, and the load balancer cuts its
connections. ``demoted``: it stays as a read-only replica, with its connections."""


def clock_of_server(server: RedisServer) -> str:
    """Return the name of a server's clock."""
    return f"redis-{server.port}"


def _nothing(_: RedisServer) -> None:
    pass


class Redundant:
    """A primary and its replica. Clients connect to ``url`` whoever is the primary."""

    def __init__(self, aof: Aof = "everysec", within: Path | None = None, clocks: Clocks | None = None) -> None:
        """``within``: where both keep their files; see `RedisServer`. ``clocks``: that each gets one of."""
        self._aof, self._within, self._clocks = aof, within, clocks
        self.primary = self._server()
        self.replica = self._server()
        self._old: list[RedisServer] = []
        self._front: Switch
        self._link: Switch
        """Switch through which the replica gets the primary's writes."""

    @property
    def url(self) -> str:
        return self._front.url

    def _server(self) -> RedisServer:
        server = RedisServer(self._aof, {"repl-diskless-sync-delay": "0"}, within=self._within)
        if self._clocks is not None:
            server.clock = self._clocks.environment(clock_of_server(server))
        return server

    async def demote_for(self, seconds: float) -> None:
        """Let the primary refuse writes for a while; it loses nothing."""
        await asyncio.to_thread(self.primary.demote)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.primary.promote)

    def hold_back(self) -> None:
        """Hold writes back from the replica from now on."""
        self._link.hold()

    async def take_over(self, old: End, lag_s: float, check: Callable[[RedisServer], None] = _nothing) -> None:
        """Make the replica the primary. ``lag_s``: it lacks the writes of so many seconds before.

        ``check`` is called with the new primary before a client reaches it.
        """
        if lag_s:
            await asyncio.to_thread(self.hold_back)
            await asyncio.sleep(lag_s)
        await asyncio.to_thread(self._replace, old, check)
        await asyncio.to_thread(self._add_replica)

    def _replace(self, old: End, check: Callable[[RedisServer], None]) -> None:
        if self.replica.has_ended:  # one that has to copy all anew ends when its disk is full
            self._link.close()
            self.replica.restart()
            self._join()
        if old == "killed":
            self.primary.kill9()
        elif old == "paused":
            self.primary.pause()
        else:
            self.primary.demote()
        self._link.close()  # what it held back is lost
        self.replica.promote()
        check(self.replica)
        self._front.point_at(self.replica.port, cut=old != "demoted")
        self._old.append(self.primary)
        self.primary = self.replica

    def _add_replica(self) -> None:
        for server in self._old[:-1]:  # the connections of the last one stay as they are
            server.close()
        del self._old[:-1]
        self.replica = self._server()
        self.replica.start()
        self._join()

    def _join(self) -> None:
        self._link = Switch(self.primary.port)
        self._link.start()
        self.replica.follow(self._link.port)

    def _start(self) -> None:
        self.primary.start()
        self.replica.start()
        self._join()
        self._front = Switch(self.primary.port)
        self._front.start()

    def _close(self) -> None:
        self._front.close()
        self._link.close()
        for server in (*self._old, self.primary, self.replica):
            server.close()

    async def __aenter__(self) -> "Redundant":
        await asyncio.to_thread(self._start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close)
