"""One hop through the bus beside a raw hop, and what a consumer costs."""

import asyncio
import time
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from contracts.commands import WakeUp
from contracts.streams import EMBED, TASK_WAKE
from shared.bus.consumer import Consumer, Handler
from shared.bus.entries import EntryHandler
from shared.bus.entry import Done, Entry
from shared.cancelling import cancel_all
from shared.state.actors import Actors
from shared.state.commit import Commit
from shared.state.keys import TaskKeys
from shared.state.store import Store
from tests.bench.common import Effort, Row, middle, quantile
from tests.support.redis_server import RedisServer

_HOPS = 600
_EVENTS = 40_000
_BODY = WakeUp(actor="default/a-session-with-a-usual-name").to_json()


async def _raw_hops(url: str, hops: int) -> list[float]:
    writer: Any = Redis.from_url(url)
    reader: Any = Redis.from_url(url)
    await writer.xgroup_create("raw", "g", id="0", mkstream=True)
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def read() -> None:
        while True:
            for _, entries in await reader.xreadgroup("g", "c", {"raw": ">"}, count=32, block=1000) or []:
                await reader.xack("raw", "g", *(i for i, _ in entries))
                arrived.put_nowait(None)

    task = asyncio.create_task(read())
    spent = []
    for _ in range(hops):
        begun = time.perf_counter()
        await writer.xadd("raw", {"data": _BODY})
        await arrived.get()
        spent.append(time.perf_counter() - begun)
    await cancel_all([task])
    await writer.aclose()
    await reader.aclose()
    return spent


class _Counting:
    """An empty handler that says when so many events have come."""

    def __init__(self) -> None:
        self.seen = 0
        self.wanted = 0
        self.reached = asyncio.Event()

    async def __call__(self, entry: Entry) -> None:
        entry.parse(WakeUp)
        self.seen += 1
        if self.seen >= self.wanted:
            self.reached.set()

    def expect(self, more: int) -> None:
        self.wanted = self.seen + more
        self.reached.clear()


def _consumer(store: Store, handler: EntryHandler, name: str) -> Consumer:
    return Consumer(store, EMBED, EMBED.key(0), 0, name, handler, 256, 2000)


async def _our_hops(store: Store, handler: EntryHandler, counting: _Counting, hops: int) -> list[float]:
    handler.consumer = _consumer(store, handler, "bench")
    await handler.consumer.start()
    spent = []
    for _ in range(hops):
        counting.expect(1)
        begun = time.perf_counter()
        await store.call("XADD", EMBED.key(0), "*", "data", _BODY)
        await counting.reached.wait()
        spent.append(time.perf_counter() - begun)
    await _end(handler.consumer)
    return spent


async def _end(consumer: Consumer) -> None:
    await consumer.stop_reading()
    await consumer.drain()


async def _per_cpu_second(store: Store, handler: EntryHandler, counting: _Counting, events: int) -> float:
    await _fill(store, EMBED.key(0), events)
    counting.expect(events)
    handler.consumer = _consumer(store, handler, "bench-2")
    cpu = time.process_time()
    await handler.consumer.start()
    await counting.reached.wait()
    cpu = time.process_time() - cpu
    await _end(handler.consumer)
    return events / cpu


async def _our_consumer(url: str, effort: Effort) -> tuple[list[float], float]:
    store, counting = Store(url), _Counting()
    handler = EntryHandler(store, counting, 5)
    beat = asyncio.create_task(handler.beat())
    spent = await _our_hops(store, handler, counting, effort(_HOPS, 200))
    rate = await _per_cpu_second(store, handler, counting, effort(_EVENTS, 10_000))
    await cancel_all([beat])
    await store.close()
    return spent, rate


class _Transacting(Handler):
    """Takes the actor and commits that its mail was read."""

    def __init__(self, actors: Actors, wanted: int) -> None:
        self._actors, self._left = actors, wanted
        self.reached = asyncio.Event()

    async def handle(self, entry: Entry) -> Done:
        tenant, _, task = entry.parse(WakeUp).actor.partition("/")
        keys = TaskKeys(0, tenant, task)
        taken = await self._actors.take(keys, entry.id, 0)
        if taken is not None:
            commit = Commit(keys, f"step-{uuid4().hex}")
            commit.unmail([m.number for m in taken.mail])
            await self._actors.commit(commit, taken)
            self._left -= 1
            if not self._left:
                self.reached.set()
        return Done.COMMITTED

    async def hand_back(self, entries: list[Entry]) -> None:
        """Nothing is left at the end."""


async def _transactions(url: str, tasks: int) -> float:
    """Wake-ups per CPU-second, each a task actor's take and commit."""
    store = Store(url)
    actors = Actors(store, "bench", 60_000)
    handler = _Transacting(actors, tasks)
    consumer = Consumer(store, TASK_WAKE, TASK_WAKE.key(0), 0, "bench", handler, 256, 60_000)
    for begin in range(0, tasks, 250):
        await asyncio.gather(*(_wake(actors, number) for number in range(begin, min(tasks, begin + 250))))
    cpu = time.process_time()
    await consumer.start()
    await handler.reached.wait()
    cpu = time.process_time() - cpu
    await _end(consumer)
    await store.close()
    return tasks / cpu


async def _wake(actors: Actors, number: int) -> None:
    keys = TaskKeys(0, "default", f"t0-{number}")
    await actors.store.call("HSET", keys.header, "status", "pending")
    await actors.post(keys, "user", _BODY, ("pending",))


async def _fill(store: Store, key: str, events: int) -> None:
    for _ in range(events // 500):
        await asyncio.gather(*(store.call("XADD", key, "*", "data", _BODY) for _ in range(500)))


async def run(effort: Effort) -> list[Row]:
    """The bus's rows."""
    raw, ours, rates, transactions = [], [], [], []
    for _ in range(effort(3, 1)):
        async with RedisServer(aof="everysec") as server:
            raw.append(quantile(await _raw_hops(server.url, effort(_HOPS, 200)), 0.5))
            spent, rate = await _our_consumer(server.url, effort)
            ours.append(quantile(spent, 0.5))
            rates.append(rate)
            transactions.append(await _transactions(server.url, effort(4_000, 1_000)))
    floor, hop, rate, durable = middle(raw), middle(ours), middle(rates), middle(transactions)
    return [
        Row(
            "bus: one hop, p50",
            f"{hop * 1e6:.0f} us ({hop / floor:.2f} x)",
            f"raw stream hop {floor * 1e6:.0f} us",
            "at most 2.5 x raw",
            hop <= 2.5 * floor,
            {"us": hop * 1e6, "raw_us": floor * 1e6},
        ),
        Row(
            "bus: events per CPU-second, empty handler",
            f"{rate:,.0f}",
            "",
            "at least 15,000",
            rate >= 15_000,
            {"per_cpu_s": rate},
        ),
        Row(
            "bus: wake-ups per CPU-second, take and commit",
            f"{durable:,.0f} ({1e6 / durable:.0f} us)",
            numbers={"per_cpu_s": durable},
        ),
    ]
