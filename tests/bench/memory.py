"""What memory costs: turns of new sessions, with recall and the archiver as users run them by default, and without.

CPU is counted until everything that was said is remembered and learned from, so that work put off is not work saved.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.request import urlopen

from redis.asyncio import Redis

from pentad.contracts.streams import LEARN, REMEMBER
from tests.bench.common import Cpu, Effort, Row, middle, quantile
from tests.bench.conversation import SocketClient, have_turns
from tests.bench.processes import Running, model, six, up
from tests.support.processes.system import MODULES

_CROWDS = (16, 32)
_DRAIN_S = 120.0
_REMEMBERS = "archiver"
_WITHOUT = tuple(name for name in MODULES if name != _REMEMBERS)

Start = Callable[[int, str], AbstractAsyncContextManager[Running]]


@dataclass
class Load:
    """One load on one way to run it, over the rounds."""

    rates: list[float] = field(default_factory=list)
    p50s: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)
    """ms a turn by name, until everything is remembered."""
    lags: list[float] = field(default_factory=list)
    """Seconds from the last turn's end until everything was remembered and learned from."""

    @property
    def rate(self) -> float:
        """Turns a second."""
        return middle(self.rates)

    @property
    def ratio(self) -> float:
        """The 99th percentile of a turn's seconds beside their median."""
        return middle(p99 / p50 for p99, p50 in zip(self.p99s, self.p50s, strict=True))

    def spent(self, *without: str) -> float:
        """ms of CPU a turn of all processes but these."""
        return middle(sum(ms for name, ms in each.items() if name not in without) for each in self.cpu)

    def of(self, name: str) -> float:
        """ms of CPU a turn of one service and its children."""
        return middle(each.get(name, 0.0) for each in self.cpu)


async def _is_remembered(redis: Any) -> bool:
    for stream in (REMEMBER, LEARN):
        groups = await redis.xinfo_groups(stream.key(0)) if await redis.exists(stream.key(0)) else []
        if any(group["lag"] or group["pending"] for group in groups):
            return False
    return True


def _tasks(url: str) -> int:
    """Return of how many tasks the memory has anything."""
    with urlopen(f"{url}/v1/memory/stats", timeout=_DRAIN_S) as answer:
        return int(json.load(answer)["tasks"])


async def _drain(running: Running, tasks: int) -> None:
    """Wait until so many tasks are remembered, and learned from: they are queued for that some time after their end."""
    async with Redis.from_url(running.redis_url, protocol=2) as redis, asyncio.timeout(_DRAIN_S):
        while await asyncio.to_thread(_tasks, running.url) < tasks or not await _is_remembered(redis):
            await asyncio.sleep(0.1)


async def _round(load: Load, running: Running, clients: int, each: int, *, remembered: bool) -> None:
    turns = partial(have_turns, lambda: SocketClient(running.url, per_session=1))
    watch, total = Cpu(running.everyone), clients * each
    there = await asyncio.to_thread(_tasks, running.url) if remembered else 0
    spent = await turns(clients, each)
    wall, ended = watch.wall(), time.perf_counter()
    if remembered:
        await _drain(running, there + total)
    load.lags.append(time.perf_counter() - ended)
    load.rates.append(total / wall)
    load.p50s.append(quantile(spent, 0.5) * 1e3)
    load.p99s.append(quantile(spent, 0.99) * 1e3)
    load.cpu.append({name: seconds / total * 1e3 for name, seconds in watch.spent().items() if name != "model"})


@dataclass
class Way:
    """One way to run it, by the number of clients."""

    start: Start
    remembers: bool
    loads: dict[int, Load] = field(default_factory=lambda: {clients: Load() for clients in _CROWDS})

    async def measure(self, pid: int, url: str, effort: Effort) -> None:
        """One round of each load after a warm-up."""
        async with self.start(pid, url) as running:
            warm = Load()
            await _round(warm, running, 16, 4, remembered=self.remembers)
            for clients, load in self.loads.items():
                await _round(load, running, clients, effort(640, 256) // clients, remembered=self.remembers)


async def run(effort: Effort) -> list[Row]:
    """Memory's rows."""
    whole = Way(six, True)
    bare = Way(partial(six, services=_WITHOUT, PENTAD_RECALL_TOKENS="0"), False)
    together = Way(up, True)
    async with model("--turn") as (pid, url):
        for _ in range(effort(3, 1)):
            for way in (bare, whole, together):
                await way.measure(pid, url, effort)
    rows: list[Row] = []
    for clients in _CROWDS:
        rows += _beside(clients, whole.loads[clients], bare.loads[clients], together.loads[clients])
    return rows


def _beside(clients: int, whole: Load, bare: Load, together: Load) -> Sequence[Row]:
    cpu, least = whole.spent(), bare.spent()
    shares = " ".join(f"{name} {whole.of(name):.2f}" for name in whole.cpu[0])
    shares_bare = " ".join(f"{name} {bare.of(name):.2f}" for name in bare.cpu[0])
    crowd = f"{clients} clients, new sessions"
    return [
        Row(
            f"memory: CPU of a turn, {crowd}",
            f"{cpu:.2f} ms: {cpu / least:.2f} x",
            f"without memory {least:.2f} ms",
            "at most 1.6 x, goal 1.3",
            cpu <= 1.6 * least,
            {"cpu_ms": cpu, "without_ms": least, "ratio": cpu / least},
        ),
        Row(
            f"memory: turns/s, {crowd}",
            f"{whole.rate:.0f}/s: {whole.rate / bare.rate:.2f} x (remembered {middle(whole.lags):.2f} s later)",
            f"without memory {bare.rate:.0f}/s",
            "at least 0.75 x, goal 0.9",
            whole.rate >= 0.75 * bare.rate,
            {"per_s": whole.rate, "without_per_s": bare.rate, "lag_s": middle(whole.lags)},
        ),
        Row(
            f"memory: to remember a finished task, {crowd}",
            f"{whole.of(_REMEMBERS):.2f} ms",
            "",
            "at most 3 ms",
            whole.of(_REMEMBERS) <= 3,
            {"remembering_ms": whole.of(_REMEMBERS)},
        ),
        Row(
            f"memory: p99 / p50 of `pentad up`, {crowd}",
            f"{middle(together.p99s):.0f} / {middle(together.p50s):.0f} ms: {together.ratio:.1f} x "
            f"({together.rate:.0f}/s, CPU {together.spent():.1f} ms)",
            f"six processes {middle(whole.p99s):.0f} / {middle(whole.p50s):.0f} ms",
            "at most 2 x",
            together.ratio <= 2,
            {"p99_ms": middle(together.p99s), "p50_ms": middle(together.p50s), "cpu_ms": together.spent()},
        ),
        Row(f"memory: CPU ms, {crowd}", shares, f"without memory: {shares_bare}"),
    ]
