"""One hop through the bus beside a raw hop, and what a consumer costs."""

import asyncio
import time

from redis.asyncio import Redis

from contracts.commands import WakeUp
from contracts.streams import EMBED
from shared.bus.consumer import Consumer
from shared.bus.entries import EntryHandler
from shared.bus.entry import Entry
from shared.cancelling import cancel_all
from shared.state.store import Store
from tests.bench.common import Row, quantile
from tests.support.redis_server import RedisServer

_HOPS = 600
_EVENTS = 40_000
_BODY = WakeUp(actor="default/a-session-with-a-usual-name").to_json()


async def _raw_hops(url: str) -> list[float]:
    writer: Redis = Redis.from_url(url)
    reader: Redis = Redis.from_url(url)
    await writer.xgroup_create("raw", "g", id="0", mkstream=True)
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def read() -> None:
        while True:
            for _, entries in await reader.xreadgroup("g", "c", {"raw": ">"}, count=32, block=1000) or []:
                await reader.xack("raw", "g", *(i for i, _ in entries))
                arrived.put_nowait(None)

    task = asyncio.create_task(read())
    spent = []
    for _ in range(_HOPS):
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


async def _our_consumer(url: str) -> tuple[list[float], float, float]:
    store = Store(url)
    counting = _Counting()
    handler = EntryHandler(store, counting, 5)
    key = EMBED.key(0)
    handler.consumer = Consumer(store, EMBED, key, 0, "bench", handler, 256, 2000)
    await handler.consumer.start()
    beat = asyncio.create_task(handler.beat())
    spent = []
    for _ in range(_HOPS):
        counting.expect(1)
        begun = time.perf_counter()
        await store.call("XADD", key, "*", "data", _BODY)
        await counting.reached.wait()
        spent.append(time.perf_counter() - begun)
    await handler.consumer.stop_reading()
    await handler.consumer.drain()
    await _fill(store, key)
    counting.expect(_EVENTS)
    handler.consumer = Consumer(store, EMBED, key, 0, "bench-2", handler, 256, 2000)
    cpu, wall = time.process_time(), time.perf_counter()
    await handler.consumer.start()
    await counting.reached.wait()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await handler.consumer.stop_reading()
    await handler.consumer.drain()
    await cancel_all([beat])
    await store.close()
    return spent, cpu, wall


async def _fill(store: Store, key: str) -> None:
    for _ in range(_EVENTS // 500):
        await asyncio.gather(*(store.call("XADD", key, "*", "data", _BODY) for _ in range(500)))


async def run() -> list[Row]:
    """The bus's rows."""
    async with RedisServer(aof="everysec") as server:
        raw = await _raw_hops(server.url)
        ours, cpu, wall = await _our_consumer(server.url)
    floor, hop = quantile(raw, 0.5), quantile(ours, 0.5)
    per_second = _EVENTS / cpu
    return [
        Row(
            "bus: one hop, p50",
            f"{hop * 1e6:.0f} us ({hop / floor:.2f} x)",
            f"raw stream hop {floor * 1e6:.0f} us",
            "at most 2.5 x raw",
            hop <= 2.5 * floor,
        ),
        Row(
            "bus: events per CPU-second, empty handler",
            f"{per_second:,.0f} ({_EVENTS / wall:,.0f}/s wall)",
            "",
            "at least 15,000",
            per_second >= 15_000,
        ),
    ]
