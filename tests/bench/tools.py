"""The hop of a tool call: runner to worker and back, raw, over our bus, and with every durable commit."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from pentad.contracts.events import ToolResultEvent
from pentad.shared.event_loop import cancel_all
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Entry
from tests.bench.common import Cpu, Effort, Row, make_group, middle
from tests.bench.processes import module, six
from tests.bench.tool_durable import LeanRunner, StepRunner
from tests.bench.tool_pace import Chains, Figures, command
from tests.bench.tool_peer import CALLS, RAW_CALLS, RAW_RESULTS, RESULTS
from tests.support.redis.redis_server import RedisServer


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Chains]:
    """Plain redis-py streams on both sides."""
    redis: Any = Redis.from_url(url, protocol=2)
    reader: Any = Redis.from_url(url, protocol=2)
    await make_group(redis, RAW_RESULTS, "g")
    body = command(0).to_json()

    async def send() -> None:
        await redis.xadd(RAW_CALLS, {"data": body})

    chains = Chains(send)

    async def read() -> None:
        while True:
            for _, entries in await reader.xreadgroup("g", "c", {RAW_RESULTS: ">"}, count=64, block=1000) or []:
                acked = redis.xack(RAW_RESULTS, "g", *(i for i, _ in entries))
                await asyncio.gather(acked, *(chains.back() for _ in entries))

    async with module("tests.bench.tool_peer", "raw", url) as (chains.worker, _):
        task = asyncio.create_task(read())
        yield chains
        await cancel_all([task])
    await redis.aclose()
    await reader.aclose()


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Chains]:
    """Our bus on both sides, contracts parsed and written, nothing durable."""
    store = Store(url)
    numbers = iter(range(1 << 30))

    async def send() -> None:
        await store.call("XADD", CALLS, "*", "data", command(next(numbers)).to_json())

    chains = Chains(send)

    async def work(entry: Entry) -> None:
        entry.parse(ToolResultEvent)
        await chains.back()

    handler = EntryHandler(store, work, 5)
    handler.consumer = Consumer(store, RESULTS, RESULTS.key(0), 0, "bench-runner", handler, 256, 2000)
    async with module("tests.bench.tool_peer", "bus", url) as (chains.worker, _):
        await handler.consumer.start()
        beat = asyncio.create_task(handler.beat())
        yield chains
        await handler.consumer.stop_reading()
        await handler.consumer.drain()
        await cancel_all([beat])
    await store.close()


class Costs:
    """us of CPU a call, on both sides, over the rounds."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    async def note(self, name: str, worker: int, round_: Awaitable[int]) -> None:
        """Measure one round, which says how many calls it made."""
        watch, own = Cpu({"worker": [worker]}), time.process_time()
        calls = await round_
        for side, seconds in (("runner", time.process_time() - own), ("worker", watch.spent()["worker"])):
            self._found.setdefault(f"{name} {side}", []).append(seconds / calls * 1e6)

    def row(self, name: str, kind: str) -> Row:
        """One kind of hop beside the raw one."""
        at = {key: middle(values) for key, values in self._found.items()}
        numbers = {f"{side}_us": at[f"{kind} {side}"] for side in ("runner", "worker")}
        value = f"runner {numbers['runner_us']:.0f} + worker {numbers['worker_us']:.0f} us"
        return Row(name, value, f"raw streams {at['raw runner']:.0f} + {at['raw worker']:.0f} us", numbers=numbers)


async def run(effort: Effort) -> list[Row]:
    """The tool hop's rows."""
    raw_, bare_, lean, step, costs = Figures(), Figures(), Figures(), Figures(), Costs()
    for _ in range(effort(3, 1)):
        async with RedisServer(aof="everysec") as redis:
            for name, figures, hop in (("raw", raw_, raw), ("bare", bare_, bare)):
                async with hop(redis.url) as chains:
                    work = figures.add(chains.run, chains.pace, effort(10_000, 3_000), effort(500, 200))
                    await costs.note(name, chains.worker, work)
        async with six(0, "http://127.0.0.1:9/v1", ("tool-worker",)) as running:
            for figures, runner in ((lean, LeanRunner(running.redis_url)), (step, StepRunner(running.redis_url))):
                async with runner:
                    work = figures.add(runner.run, runner.pace, effort(4_000, 800), effort(300, 80))
                    await costs.note(runner.name, running.ours["tool-worker"][0], work)
    floor = f"raw streams {raw_.rate:,.0f}/s"
    floor_p50 = f"raw streams {raw_.p50 * 1e6:.0f} us"
    return [
        _rate("tool hop, bare over our bus, 64 in flight", bare_, floor, 5_000),
        _alone("tool hop, bare over our bus, alone, p50", bare_, raw_, floor_p50, 3.0),
        _rate("tool hop, every durable commit, 64 in flight", lean, floor, 2_000),
        _alone("tool hop, every durable commit, alone, p50", lean, raw_, floor_p50, 3.0),
        _rate("tool hop, the runner's whole step, 64 in flight", step, floor, None),
        _alone("tool hop, the runner's whole step, alone, p50", step, raw_, floor_p50, None),
        costs.row("tool hop, bare over our bus, CPU a call", "bare"),
        costs.row("tool hop, every durable commit, CPU a call", "lean"),
        costs.row("tool hop, the runner's whole step, CPU a call", "step"),
    ]


def _rate(name: str, figures: Figures, floor: str, least: int | None) -> Row:
    promise = f"at least {least:,}/s" if least else ""
    kept = figures.rate >= least if least else None
    return Row(name, f"{figures.rate:,.0f}/s", floor, promise, kept, {"per_s": figures.rate})


def _alone(name: str, figures: Figures, raw_: Figures, floor: str, most: float | None) -> Row:
    times = figures.p50 / raw_.p50
    promise = f"at most {most:g} x raw" if most else ""
    value = f"{figures.p50 * 1e6:.0f} us ({times:.2f} x)"
    return Row(name, value, floor, promise, times <= most if most else None, {"p50_us": figures.p50 * 1e6, "x": times})
