"""Consumers as a service has them, started and stopped by the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pentad.contracts.streams import ARCHIVE
from pentad.shared.errors import PoisonError
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Done, Entry
from pentad.shared.work.handler import Handler

KEY, GROUP = ARCHIVE.key(0), "archiver"
Work = Callable[[Entry], Awaitable[Any]]


class Plain(Handler):
    """A handler that is one function; what was not begun is copied to the end of the stream."""

    def __init__(self, store: Store, name: str, work: Work) -> None:
        self._store, self._name, self._work = store, name, work

    async def handle(self, entry: Entry) -> Done:
        await self._work(entry)
        return Done.ACK

    async def hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            if not entry.data:
                raise PoisonError("unreadable")
        args = [GROUP, self._name, *(part for e in entries for part in (e.id, e.data))]
        await self._store.run("entry_release", [KEY], args)


@asynccontextmanager
async def consuming(
    store: Store, name: str, work: Work, slots: int = 8, lease_ms: int = 500
) -> AsyncIterator[Consumer]:
    """A consumer that runs, and stops in order."""
    consumer = Consumer(store, ARCHIVE, KEY, 0, name, Plain(store, name, work), slots, lease_ms)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop_reading()
        await consumer.drain()


@asynccontextmanager
async def working(
    store: Store, name: str, work: Work, attempts: int | None = 3, lease_ms: int = 1500
) -> AsyncIterator[EntryHandler]:
    """A consumer of entries that carry their own work, as the archiver has it."""
    handler = EntryHandler(store, work, attempts)
    handler.consumer = Consumer(store, ARCHIVE, KEY, 0, name, handler, 8, lease_ms)
    beat = asyncio.create_task(handler.beat())
    await handler.consumer.start()
    try:
        yield handler
    finally:
        await handler.consumer.stop_reading()
        await handler.interrupt()
        await handler.consumer.drain()
        beat.cancel()
        await asyncio.gather(beat, return_exceptions=True)


async def add(store: Store, *data: str) -> list[str]:
    """Append entries; their ids."""
    return [(await store.call("XADD", KEY, "*", "data", d)).decode() for d in data]


async def pending(store: Store, consumer: str = "") -> int:
    """Entries that are not acknowledged."""
    only = (consumer,) if consumer else ()
    return len(await store.call("XPENDING", KEY, GROUP, "-", "+", 10_000, *only))


async def settled(store: Store) -> bool:
    """Everything was read and acknowledged."""
    groups = await store.redis.xinfo_groups(KEY)
    return all(g["pending"] == 0 and g["lag"] == 0 for g in groups)
