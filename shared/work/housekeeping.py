"""Keeping work streams short and their groups clean, without ever cutting work (law 7)."""

import asyncio
import logging
from collections.abc import Sequence

from redis.exceptions import RedisError

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, Stream, split_key
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.headers import read_session
from pentad.shared.errors import OutageError
from pentad.shared.keys import SessionKeys, TaskKeys, load, tag
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)

_KEYS = 2000
"""Keys of the server that one round goes past: under a millisecond of its time."""


class LostWakeUps:
    """Looks after the actors of one shard's stream of wake-ups."""

    def __init__(self, store: Store, stream: Stream, shard: int, lease_ms: int) -> None:
        assert stream in (SESSION_WAKE, TASK_WAKE)
        self._store, self._shard, self._lease_ms = store, shard, lease_ms
        self._kind = SessionKeys if stream is SESSION_WAKE else TaskKeys
        self._begins = f"{tag(shard)}:{'session' if stream is SESSION_WAKE else 'task'}:"
        self._cursor: Argument = 0

    async def once(self) -> None:
        """One round over some of the keys; the next goes on from there."""
        # Actors have sorted sets for their mail, and for nothing else.
        where = ("MATCH", f"{self._begins}*", "COUNT", _KEYS, "TYPE", "zset")
        self._cursor, boxes = await self._store.call("SCAN", self._cursor, *where)
        for header in dict.fromkeys(key.decode().rpartition(":")[0] for key in boxes):
            tenant, _, name = header.removeprefix(self._begins).partition(":")
            actor = self._kind(self._shard, tenant, read_session(name.encode()))  # ids of tasks are their own names
            args: list[Argument] = [actor.group, actor.actor, self._lease_ms]
            if await self._store.run("rewake", [actor.header, actor.wake], args):
                count_wake_ups(actor.stream, 1)
                log.error("%s had lost its wake-up and was given a new one: was something deleted?", actor.actor)


_say = ThrottledLog(logging.getLogger(__name__))

_EVERY_S = 5.0
_FORGET_MS = 60_000


class Housekeeping:
    """Trims streams below what every group has consumed, and forgets consumers of dead processes."""

    def __init__(self, store: Store, streams: Sequence[tuple[Stream, str]], lease_ms: int = 2000) -> None:
        self._store, self._streams = store, streams
        self._lost = [
            LostWakeUps(store, stream, place[0], lease_ms)
            for stream, key in streams
            if stream in (SESSION_WAKE, TASK_WAKE) and (place := split_key(key)) is not None
        ]

    async def run(self) -> None:
        """Clean for ever; late cleaning harms nothing."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.once()
            except (OutageError, RedisError) as error:
                _say.warning("waits", "housekeeping waits: %s", error)

    async def once(self) -> None:
        """One round over all streams."""
        for stream, key in self._streams:
            await self._store.run("trim", [key], [])
            if stream.group is not None:
                args: list[Argument] = [stream.group, _FORGET_MS, ""]
                await self._store.run("forget_consumers", [key], args)
                await self._measure(stream, key)
                if stream is SESSION_WAKE and (place := split_key(key)) is not None:
                    waiting = await self._store.call("HGET", load(place[0]), "mail")
                    metrics.waiting_mail.labels(str(place[0])).set(int(waiting or 0))
        for lost in self._lost:
            await lost.once()

    async def _measure(self, stream: Stream, key: str) -> None:
        for group in await self._store.groups(key):
            name, lag = group[b"name"].decode(), group.get(b"lag")
            metrics.lag.labels(stream.name, name).set(-1 if lag is None else lag)
            metrics.pending.labels(stream.name, name).set(group[b"pending"])
