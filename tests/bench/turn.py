"""A turn with one tool call and a 20-chunk streamed answer, against a scripted model without delay."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pentad.shared.event_loop import cancel_all
from tests.bench.common import Cpu, Effort, Row, middle, quantile
from tests.bench.conversation import FloorClient, FloorFeed, SocketClient, Turns, have_turns
from tests.bench.processes import model, six, up
from tests.bench.turn_floor import floor
from tests.support.redis.redis_server import RedisServer

CLIENTS = 32
_REMEMBERS = "archiver"


@dataclass
class Round:
    """One measurement of one load."""

    rate: float
    p50: float
    p95: float
    p99: float
    worst: float
    cpu: Mapping[str, float]
    """ms a turn, by name; ``client`` is the load generator."""


@dataclass
class Load:
    """One load on one way to run it, over the rounds."""

    rounds: list[Round] = field(default_factory=list)

    async def add(self, turns: Turns, pids: Mapping[str, Sequence[int]], clients: int, each: int) -> None:
        """One more round."""
        watch, own = Cpu(pids), time.process_time()
        spent = await turns(clients, each)
        wall, own = watch.wall(), time.process_time() - own
        total = clients * each
        cpu = {name: seconds / total * 1e3 for name, seconds in watch.spent().items()}
        cpu["client"] = own / total * 1e3
        self.rounds.append(
            Round(total / wall, quantile(spent, 0.5), quantile(spent, 0.95), quantile(spent, 0.99), max(spent), cpu)
        )

    @property
    def rate(self) -> float:
        """Turns a second."""
        return middle(r.rate for r in self.rounds)

    @property
    def p50(self) -> float:
        """ms of a turn."""
        return middle(r.p50 for r in self.rounds) * 1e3

    @property
    def p95(self) -> float:
        """ms of a turn."""
        return middle(r.p95 for r in self.rounds) * 1e3

    @property
    def p99(self) -> float:
        """ms of a turn."""
        return middle(r.p99 for r in self.rounds) * 1e3

    @property
    def worst(self) -> float:
        """ms of the slowest turn of all rounds."""
        return max(r.worst for r in self.rounds) * 1e3

    def cpu(self, names: Sequence[str]) -> float:
        """ms of CPU a turn, of these together."""
        return middle(sum(r.cpu[name] for name in names) for r in self.rounds)

    def each(self) -> dict[str, float]:
        """ms of CPU a turn, by name."""
        return {name: middle(r.cpu[name] for r in self.rounds) for name in self.rounds[0].cpu}


@dataclass
class Way:
    """One way to run it: alone and crowded."""

    ours: tuple[str, ...] = ()
    alone: Load = field(default_factory=Load)
    crowd: Load = field(default_factory=Load)

    async def add(
        self, turns: Turns, ours: Mapping[str, Sequence[int]], beside: Mapping[str, Sequence[int]], effort: Effort
    ) -> None:
        """A warm-up, then both loads."""
        self.ours = tuple(ours)
        await turns(CLIENTS, 3)
        await self.alone.add(turns, {**ours, **beside}, 1, effort(200, 60))
        await self.crowd.add(turns, {**ours, **beside}, CLIENTS, effort(30, 8))

    def cpu(self, load: Load) -> float:
        """ms a turn of what is ours and answers it. What remembers it later is told apart, where it is a process."""
        return load.cpu([name for name in self.ours if name != _REMEMBERS])

    def remembering(self, load: Load) -> float:
        """ms a turn of what remembers what was said, while others are answered."""
        return load.cpu([_REMEMBERS])


async def _floor_round(way: Way, model_pid: int, model_url: str, effort: Effort) -> None:
    async with RedisServer(aof="everysec") as redis, floor(redis.url, model_url) as pids:
        feed = FloorFeed(redis.url)
        reading = asyncio.create_task(feed.run())
        turns = partial(have_turns, lambda: FloorClient(feed))
        await way.add(turns, pids, {"redis": [redis.pid], "model": [model_pid]}, effort)
        await cancel_all([reading])
        await feed.close()


async def run(effort: Effort) -> list[Row]:
    """The turn's rows."""
    bare, separate, by_rule, together = Way(), Way(), Way(), Way()
    ways = ((separate, six), (by_rule, partial(six, PENTAD_ROUTE="explicit")), (together, up))
    async with model("--turn") as (pid, url):
        for _ in range(effort(3, 1)):
            await _floor_round(bare, pid, url, effort)
            for way, start in ways:
                async with start(pid, url) as running:
                    turns = partial(have_turns, partial(SocketClient, running.url))
                    await way.add(turns, running.ours, running.beside, effort)
    return [
        *_rows(separate, bare),
        *_crowds(separate, together, bare),
        _weighing(separate, by_rule),
        _shares("1 client", separate, separate.alone),
        _shares(f"{CLIENTS} clients", separate, separate.crowd),
        _shares(f"{CLIENTS} clients, up", together, together.crowd),
        _shares("1 client, the prototype", bare, bare.alone),
    ]


def _rows(way: Way, bare: Way) -> list[Row]:
    cpu, least, p50 = way.cpu(way.alone), bare.cpu(bare.alone), way.alone.p50
    crowded, least_crowded = way.cpu(way.crowd), bare.cpu(bare.crowd)
    remembering, remembering_crowd = way.remembering(way.alone), way.remembering(way.crowd)
    return [
        Row(
            "turn: CPU of our processes, 1 client",
            f"{cpu:.2f} ms, {remembering:.2f} to remember it",
            f"bare prototype {least:.2f} ms",
            "at most 6 ms, goal 4",
            cpu <= 6,
            {"cpu_ms": cpu, "remembering_ms": remembering, "floor_ms": least},
        ),
        Row(
            f"turn: CPU of our processes, {CLIENTS} clients",
            f"{crowded:.2f} ms, {remembering_crowd:.2f} to remember it",
            f"bare prototype {least_crowded:.2f} ms",
            "at most 6 ms, goal 4",
            crowded <= 6,
            {"cpu_ms": crowded, "remembering_ms": remembering_crowd, "floor_ms": least_crowded},
        ),
        Row(
            "turn: p50 / p95 over the WebSocket, 1 client",
            f"{p50:.1f} / {way.alone.p95:.1f} ms",
            f"bare prototype {bare.alone.p50:.1f} / {bare.alone.p95:.1f} ms",
            "p50 at most 10 ms, goal 8",
            p50 <= 10,
            {"p50_ms": p50, "p95_ms": way.alone.p95, "floor_p50_ms": bare.alone.p50},
        ),
    ]


def _crowds(separate: Way, together: Way, bare: Way) -> list[Row]:
    rows = []
    for name, way, gate, goal in (("six processes", separate, 150, 250), ("pentad up", together, 100, 150)):
        rate, crowd, least = way.crowd.rate, way.crowd, bare.crowd
        rows.append(
            Row(
                f"turn: turns/s, {CLIENTS} clients, {name}",
                f"{rate:.0f}/s (p50 {way.crowd.p50:.0f} ms)",
                f"bare prototype {bare.crowd.rate:.0f}/s",
                f"at least {gate}/s, goal {goal}",
                rate >= gate,
                {"per_s": rate, "p50_ms": way.crowd.p50, "floor_per_s": bare.crowd.rate},
            )
        )
        rows.append(
            Row(
                f"turn: p99 / p50, {CLIENTS} clients, {name}",
                f"{crowd.p99:.0f} / {crowd.p50:.0f} ms: {crowd.p99 / crowd.p50:.1f} x (slowest {crowd.worst:.0f} ms)",
                f"bare prototype {least.p99:.0f} / {least.p50:.0f} ms",
                "goal 2 x",
                numbers={"p99_ms": crowd.p99, "p50_ms": crowd.p50, "max_ms": crowd.worst, "floor_p99_ms": least.p99},
            )
        )
    return rows


def _weighing(weighed: Way, by_rule: Way) -> Row:
    """What it costs that a message without ``task_id`` finds its task by what it says, not by a rule."""
    more, alone, crowd = weighed.alone.p50 - by_rule.alone.p50, by_rule.cpu(by_rule.alone), by_rule.cpu(by_rule.crowd)
    return Row(
        "turn: weighing a message, p50, 1 client",
        f"{more:+.1f} ms",
        f"by rule: p50 {by_rule.alone.p50:.1f} ms, CPU {alone:.2f} ms, {CLIENTS} clients {crowd:.2f} ms",
        "at most 3 ms more",
        more <= 3,
        {"more_ms": more, "rule_p50_ms": by_rule.alone.p50, "rule_cpu_ms": alone, "rule_crowd_cpu_ms": crowd},
    )


def _shares(name: str, way: Way, load: Load) -> Row:
    each = load.each()
    ours = " ".join(f"{n} {each[n]:.2f}" for n in way.ours if each[n] >= 0.05)
    beside = ", ".join(f"{n} {v:.2f}" for n, v in each.items() if n not in way.ours)
    return Row(f"turn: CPU ms, {name}", ours, f"beside: {beside}", numbers={f"{n}_ms": v for n, v in each.items()})
