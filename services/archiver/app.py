"""The archiver's composition root."""

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from contracts.streams import ARCHIVE
from services.archiver.handlers import Archiving
from shared.bus.consumer import Consumer
from shared.bus.entries import EntryHandler
from shared.bus.housekeeping import Housekeeping
from shared.records import Records
from shared.service.background import Background, wait_for_redis
from shared.settings import Settings
from shared.state.cluster import agree
from shared.state.store import Store

_SLOTS = 16


class Archiver:
    """Writes finished tasks to the record store and removes them from Redis."""

    name = "archiver"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.redis())
        consumer = f"archiver-{uuid4().hex[:12]}"
        archiving = Archiving(self._store, Records(settings.records_url), round(settings.pentad_grace_s * 1000))
        self._handlers: list[EntryHandler] = []
        for shard in range(settings.pentad_shards):
            handler = EntryHandler(self._store, archiving.handle, settings.pentad_max_attempts)
            handler.consumer = Consumer(
                self._store, ARCHIVE, ARCHIVE.key(shard), shard, consumer, handler, _SLOTS, settings.lease_ms
            )
            self._handlers.append(handler)
        self._consumers = [h.consumer for h in self._handlers]
        self._background = Background()

    async def start(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)
        streams = [(c.stream, c.key) for c in self._consumers]
        for loop in (*(h.beat() for h in self._handlers), Housekeeping(self._store, streams).run()):
            self._background.run(loop)
        for consumer in self._consumers:
            await consumer.start()

    async def stop(self) -> None:
        await asyncio.gather(*(c.stop_reading() for c in self._consumers))
        await asyncio.gather(*(h.interrupt() for h in self._handlers))
        await asyncio.gather(*(c.drain() for c in self._consumers))
        await self._background.stop()
        await self._store.close()

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self._store.trouble, "archiving": None if self.alive() else "a loop has ended"}

    def alive(self) -> bool:
        return self._background.alive() and all(c.alive() for c in self._consumers)


def build(settings: Settings) -> Archiver:
    """The archiver, ready to start."""
    return Archiver(settings)
