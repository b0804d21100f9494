"""Keeping work streams short and their groups clean, without ever cutting work (law 7)."""

import asyncio
import logging
from collections.abc import Sequence

from redis.exceptions import RedisError

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, Stream, split_key
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.keys import load
from pentad.shared.seldom import Seldom
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.lost_wake_ups import LostWakeUps

_say = Seldom(logging.getLogger(__name__))

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
