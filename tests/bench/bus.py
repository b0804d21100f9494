"""One hop through the bus beside a raw hop, and what a consumer costs."""

import asyncio
import time
from collections.abc import Mapping
from uuid import uuid4

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import EMBED, TASK_WAKE
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.commit import Commit
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Done, Entry
from pentad.shared.work.handler import Handler
from tests.bench import bus_floor
from tests.bench.common import Effort, Row, middle, quantile
from tests.support.redis.redis_server import RedisServer

_HOPS = 600
_EVENTS = 40_000
_BODY = WakeUp(actor="default/a-session-with-a-usual-name").to_json()


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


async def _our_consumer(url: str, hops: int, events: int) -> tuple[list[float], float]:
    store, counting = Store(url), _Counting()
    handler = EntryHandler(store, counting, 5)
    beat = asyncio.create_task(handler.beat())
    spent = await _our_hops(store, handler, counting, hops)
    rate = await _per_cpu_second(store, handler, counting, events)
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
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    for _ in range(effort(3, 1)):
        async with RedisServer(aof="everysec") as server:
            url, hops, many = server.url, effort(_HOPS, 200), effort(_EVENTS, 10_000)
            note("raw hop", quantile(await bus_floor.hops(url, _BODY, hops), 0.5))
            spent, rate = await _our_consumer(url, hops, many)
            note("hop", quantile(spent, 0.5))
            note("rate", rate)
            note("durable", await _transactions(url, effort(4_000, 1_000)))
        async with RedisServer(aof="everysec") as server:
            note("raw rate", await bus_floor.per_cpu_second(server.url, _BODY, many))
        async with RedisServer(aof="everysec") as server:
            note("raw durable", await bus_floor.transactions(server.url, _BODY, effort(4_000, 1_000)))
    return _rows({name: middle(values) for name, values in figures.items()})


def _rows(figure: Mapping[str, float]) -> list[Row]:
    floor, hop, rate, durable = figure["raw hop"], figure["hop"], figure["rate"], figure["durable"]
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
            f"{rate:,.0f} ({1e6 / rate:.0f} us)",
            f"raw redis-py {figure['raw rate']:,.0f}",
            "at least 15,000",
            rate >= 15_000,
            {"per_cpu_s": rate, "raw_per_cpu_s": figure["raw rate"]},
        ),
        Row(
            "bus: wake-ups per CPU-second, take and commit",
            f"{durable:,.0f} ({1e6 / durable:.0f} us)",
            f"raw redis-py, a pipeline and a MULTI {figure['raw durable']:,.0f}",
            numbers={"per_cpu_s": durable, "raw_per_cpu_s": figure["raw durable"]},
        ),
    ]
