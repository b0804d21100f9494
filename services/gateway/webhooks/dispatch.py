"""Which gateway sends the events of a shard to webhooks: one at a time, and the next one when it falls silent.

While no tenant has webhooks, and no message had a callback, a gateway asks Redis once a second whether that is so.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from pentad.services.gateway.webhooks.deliveries import MAX_REQUESTS, Deliveries, Places, Sending, UpdateForm
from pentad.services.gateway.webhooks.event_collector import EventCollector
from pentad.services.gateway.webhooks.followed import RegisteredWebhooks
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.errors import OutageError
from pentad.shared.keys import callbacks, waiting_webhooks, webhook_lease
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

if TYPE_CHECKING:
    from pentad.shared.outbound.outside_client import OutsideClient

_say = ThrottledLog(logging.getLogger(__name__))
_IDLE_S = 1.0
"""Seconds between two looks whether there is anything to send at all."""
_TICK_S = 0.1
"""Seconds between two looks for news and for what is due."""
_BUSY_S = 0.01
"""Seconds between two looks while there is more, so that a gateway serves its clients meanwhile."""
_LEASE_PARTS = 4
"""Looks at a lease within its length, so that a late one does not lose it."""


class WebhookDispatch:
    """Sends the events of all shards for which no other gateway does."""

    def __init__(self, store: Store, settings: Settings, secrets: WebhookSecrets, updates: UpdateForm) -> None:
        self._store, self._settings = store, settings
        self._sending = Sending(self._outside, secrets, updates)
        self._registered = RegisteredWebhooks(store)
        self._client: OutsideClient | None = None
        self._places = Places()
        self._shards: list[ShardDispatch] = []

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the loops that run as long as the gateway does."""
        ttl_s, shards = self._settings.pentad_events_ttl_s, self._settings.pentad_shards
        for shard in range(shards):
            collector = EventCollector(self._store, shard, self._registered, shards, ttl_s)
            deliveries = Deliveries(self._store, shard, self._sending, self._places)
            lease_ms = self._settings.lease_ms
            self._shards.append(ShardDispatch(self._store, shard, self._registered, collector, deliveries, lease_ms))
        return [self._registered.follow(), *(shard.run() for shard in self._shards)]

    def _outside(self) -> "OutsideClient":
        """Return the client, which is imported with the first request."""
        from pentad.shared.outbound.outside_client import OutsideClient

        if self._client is None:
            self._client = OutsideClient(self._settings.pentad_web_allow, at_once=MAX_REQUESTS)
        return self._client

    async def stop(self) -> None:
        """End what is under way, and leave the shards to other gateways. The loops have ended by then."""
        await asyncio.gather(*(shard.stop() for shard in self._shards))
        if self._client is not None:
            await self._client.aclose()


class ShardDispatch:
    """Collects and sends the events of one shard while this gateway has its lease."""

    def __init__(
        self,
        store: Store,
        shard: int,
        registered: RegisteredWebhooks,
        collector: EventCollector,
        deliveries: Deliveries,
        lease_ms: int,
    ) -> None:
        self._store, self._shard, self._registered = store, shard, registered
        self._collector, self._deliveries, self._lease_ms = collector, deliveries, lease_ms
        self._holder = f"gateway-{token_hex(8)}"
        self._has_lease = False
        self._asked_at = float("-inf")
        """Loop time at which the lease was asked for last."""
        self._connection = -1

    async def run(self) -> None:
        """Send for ever. An outage of Redis is waited for; nothing is lost, only late."""
        while True:
            try:
                pause_s = await self._turn()
            except OutageError as error:
                _say.warning("waits", "webhooks wait for Redis: %s", error)
                pause_s, self._has_lease = _IDLE_S, False
            except Exception as error:
                self._store.stumbled("webhooks", error)
                pause_s = _IDLE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._deliveries.news.wait()
            self._deliveries.news.clear()

    async def _turn(self) -> float:
        """Collect and send what there is; returns the seconds until the next turn."""
        if not await self._has_work():
            return _IDLE_S
        if not await self._keeps_lease():
            return self._lease_ms / 1000 / _LEASE_PARTS
        if self._store.connection != self._connection:
            self._connection = self._store.connection
            self._reset()
        more = await self._collector.collect()
        more = await self._deliveries.begin_due() or more
        return _BUSY_S if more else _TICK_S

    async def _has_work(self) -> bool:
        if self._registered.ids:
            return True
        return bool(await self._store.call("EXISTS", callbacks(self._shard), waiting_webhooks(self._shard)))

    async def _keeps_lease(self) -> bool:
        """Return whether this gateway has the lease, which is asked for anew a few times within its length."""
        now = asyncio.get_running_loop().time()
        if self._has_lease and now - self._asked_at < self._lease_ms / 1000 / _LEASE_PARTS:
            return True
        had = self._has_lease and now - self._asked_at < self._lease_ms / 1000
        args: list[Argument] = [self._holder, self._lease_ms]
        self._has_lease = bool(await self._store.run("turn", [webhook_lease(self._shard)], args))
        self._asked_at = now
        if self._has_lease and not had:
            self._reset()
        return self._has_lease

    def _reset(self) -> None:
        """Begin anew: another gateway may have worked meanwhile, or Redis knows less."""
        self._collector.reset()
        self._deliveries.reset()

    async def stop(self) -> None:
        """End the requests under way, and give the lease back."""
        await self._deliveries.stop()
        if self._has_lease:
            with contextlib.suppress(OutageError):
                await self._store.run("turn", [webhook_lease(self._shard)], [self._holder, 0])
