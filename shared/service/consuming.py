"""The base of services that serve work streams: how they start, how they stop, and when they are alive."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any

from pentad.contracts.streams import Stream, tool_queue_of
from pentad.shared.presence.loop_holds import keep_telling_holds
from pentad.shared.presence.processes import ServiceWork, report_process
from pentad.shared.service.background import Background, wait_for_redis
from pentad.shared.settings import Settings
from pentad.shared.store.admission import agree, keep_watching
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import Handler
from pentad.shared.work.housekeeping import Housekeeping
from pentad.shared.work.intake import Slots


class ConsumingService:
    """Consumers and the loops beside them. A composition root derives from it and fills in what is its own."""

    name: str
    check: str
    """Name of the readiness check that fails when a loop has ended: a word for the work that is not done then."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.shards = range(settings.pentad_shards)
        self.store = Store(settings.redis())
        self.consumer_name = f"{self.name}-{token_hex(6)}"
        self.consumers: list[Consumer] = []
        self._entry_handlers: list[EntryHandler] = []
        """The handlers of streams whose entries carry their own work."""
        self.background = Background()
        self._kept_short: list[tuple[Stream, str]] = []

    def serve(
        self, stream: Stream, shard: int, handler: Handler, slots: int | Slots, gather_s: float = 0.0, **parts: str
    ) -> Consumer:
        """A consumer of one stream of one shard; it begins to read at the start.

        ``slots``: how many entries are handled at once, or what several consumers share. ``gather_s``: see `Consumer`.
        ``parts``: see `Stream.key`.
        """
        key = stream.key(shard, **parts)
        lease_ms = self.settings.lease_ms
        consumer = Consumer(self.store, stream, key, shard, self.consumer_name, handler, slots, lease_ms, gather_s)
        self.consumers.append(consumer)
        return consumer

    def serve_entries(
        self,
        stream: Stream,
        work: Callable[[Entry], Awaitable[None]],
        slots: int,
        *,
        gives_up: bool = True,
        gather_s: float = 0.0,
    ) -> None:
        """Run a function for each entry of every shard, so many at once in each.

        ``gives_up``: what goes on failing becomes a dead letter; else it is tried until it is done. ``gather_s``: see
        `Consumer`.
        """
        for shard in self.shards:
            handler = EntryHandler(self.store, work, self.settings.pentad_max_attempts if gives_up else None)
            handler.consumer = self.serve(stream, shard, handler, slots, gather_s)
            self._entry_handlers.append(handler)

    async def begin(self, consumer: Consumer, *loops: Coroutine[Any, Any, None]) -> None:
        """Begin to read a stream that nobody knew of when the service started, with the loops of its handler."""
        self._kept_short.append((consumer.stream, consumer.key))
        for loop in loops:
            self.background.run(loop)
        await consumer.start()

    # What a service fills in

    async def prepare(self) -> None:
        """Prepare whatever is needed before Redis is asked for anything."""

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the loops that run as long as the service does, its housekeeping aside."""
        return [handler.beat() for handler in self._entry_handlers]

    def reading_at_start(self) -> Sequence[Consumer]:
        """The consumers that begin to read at the start; the others are started by the service."""
        return self.consumers

    def streams(self) -> list[tuple[Stream, str]]:
        """The streams that this service keeps short."""
        return [(c.stream, c.key) for c in self.consumers]

    async def leave(self) -> None:
        """Interrupt the work under way, so that it can be handed back. Nothing new is read by then."""
        await asyncio.gather(*(handler.interrupt() for handler in self._entry_handlers))

    async def close(self) -> None:
        """Close the service's own resources; Redis is still connected."""

    # What whoever runs it asks (`pentad.shared.service.runnable`)

    async def start(self) -> None:
        await self.prepare()
        await wait_for_redis(self.store, self.name)
        await agree(self.store, self.settings.pentad_shards)
        self._kept_short = self.streams()
        housekeeping = Housekeeping(self.store, self._kept_short, self.settings.lease_ms)
        reporting = report_process(self.store, self.name, self.consumer_name, self._work)
        beside = housekeeping.run(), keep_watching(self.store), keep_telling_holds(self.store), reporting
        for loop in (*self.loops(), *beside):
            self.background.run(loop)
        for consumer in self.reading_at_start():
            await consumer.start()

    async def stop(self) -> None:
        await asyncio.gather(*(c.stop_reading() for c in self.consumers))
        await self.leave()
        await asyncio.gather(*(c.drain() for c in self.consumers))
        await self.background.stop()
        await self.close()
        await self.store.close()

    def _work(self) -> ServiceWork:
        """Return what is in work now."""
        queues = {queue for each in self.consumers if (queue := tool_queue_of(each.key)) is not None}
        return ServiceWork(sum(each.under_way for each in self.consumers), tuple(sorted(queues)))

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self.store.trouble, self.check: self._trouble()}

    def _trouble(self) -> str | None:
        if not self.alive():
            return "a loop has ended"
        return next((consumer.trouble for consumer in self.consumers if consumer.trouble), None)

    def alive(self) -> bool:
        return self.background.alive() and all(c.alive() for c in self.consumers)
