"""The router's composition root."""

from collections.abc import Mapping
from uuid import uuid4

from contracts.streams import INBOUND, SESSION_WAKE
from services.router.handlers import RouterHandler
from shared.bus.consumer import Consumer
from shared.bus.housekeeping import Housekeeping
from shared.bus.inbound import Ingress
from shared.records import Records
from shared.service.background import Background, wait_for_redis
from shared.settings import Settings
from shared.state.actors import Actors, LeaseKeeper
from shared.state.cluster import agree
from shared.state.store import Store

_SLOTS = 256


class Router:
    """Moves inbound messages to their sessions, and routes sessions' messages to tasks."""

    name = "router"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.redis())
        consumer = f"router-{uuid4().hex[:12]}"
        actors = Actors(self._store, consumer, settings.lease_ms)
        self._keeper = LeaseKeeper(actors)
        self._ingress = Ingress(self._store, settings)
        records = Records(settings.records_url)
        self._consumers = [
            Consumer(
                self._store,
                SESSION_WAKE,
                SESSION_WAKE.key(shard),
                shard,
                consumer,
                RouterHandler(actors, self._keeper, records, settings, shard),
                _SLOTS,
                settings.lease_ms,
            )
            for shard in range(settings.pentad_shards)
        ]
        streams = [(c.stream, c.key) for c in self._consumers] + [(INBOUND, INBOUND.key())]
        self._housekeeping = Housekeeping(self._store, streams)
        self._background = Background()

    async def start(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)
        for loop in (self._keeper.run(), self._ingress.run(), self._housekeeping.run()):
            self._background.run(loop)
        for consumer in self._consumers:
            await consumer.start()

    async def stop(self) -> None:
        for consumer in self._consumers:
            await consumer.stop_reading()
        for consumer in self._consumers:
            await consumer.drain()
        await self._background.stop()
        await self._ingress.release()
        await self._store.close()

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self._store.trouble, "routing": None if self.alive() else "a loop has ended"}

    def alive(self) -> bool:
        return self._background.alive() and all(c.alive() for c in self._consumers)


def build(settings: Settings) -> Router:
    """The router, ready to start."""
    return Router(settings)
