"""The scorecard of a system under fire: tasks run while processes are killed and stopped, and Redis fails over.

By hand: ``make chaos SEED=1 MINUTES=5 TASKS=200``, and with ``EACH=3`` for sessions of three tasks at once. The
acceptance suite runs a short form of both.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path

from httpx2 import AsyncClient
from redis.asyncio import Redis

from pentad.shared.event_loop import cancel_all
from tests.support import small_disk
from tests.support.chaos import checks
from tests.support.chaos.alone import Alone
from tests.support.chaos.ledger import Ledger
from tests.support.chaos.outside import Outside, Undone, outside
from tests.support.chaos.plan import HANDS, UNSAFE
from tests.support.chaos.report import Report, longest_silence, percentile, recovery
from tests.support.chaos.setup import SEVERAL, Fire, Setup
from tests.support.chaos.several import Several
from tests.support.chaos.teaching import Teaching
from tests.support.chaos.troubles import CLOCKS, EVERYTHING, FULL_DISKS, KILLS, STEP_S, Troubles
from tests.support.clients.follower import Follower, NextEntry
from tests.support.clients.sse_follower import SseFollower
from tests.support.models.model_server import ScriptedModel
from tests.support.models.prompts import ill_formed
from tests.support.processes import clocks
from tests.support.processes.system import System
from tests.support.redis.failover import Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, wait_until

_CALM_S = 120.0
_PULSE_S = 0.1
_DISK_MIB = 400
_LATE_S = 30.0
"""Seconds that the machine may stall in all before due times may be late, which they are after a minute."""
_DISKS = ("redis", "memory", "records")
"""What has a small one; by hand each is full once before anything happens by chance."""


class Chaos:
    """One run."""

    def __init__(self, directory: Path, seed: int, tasks: int, minutes: float, setup: Setup) -> None:
        self._directory, self._rng, self._setup = directory, random.Random(seed), setup
        self._seed, self._outside = seed, list[Outside]()
        self._limit_s = minutes * 60
        self._ledger = Ledger(directory / "ledger")
        self._sessions: Alone | Several = (
            Alone(self._rng, tasks, setup, self._gateways)
            if setup.each == 1
            else Several(self._rng, tasks, setup, self._gateways)
        )
        plays, learns = self._sessions.plays, setup.grace_s is not None
        self._teaching = Teaching(tasks, self._gateways, plays, learns=learns) if setup.remembers else None
        self.report = Report(tasks=self._sessions.sessions * setup.each, by_clients=setup.clocks)
        self._followers: list[Follower] = []
        self._calm = asyncio.Event()
        """Nothing goes wrong any more."""

    async def run(self, at_once: int, fire: Fire) -> Report:
        """Run all tasks, at most ``at_once`` at a time, under fire."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._ledger.path.touch()
        begun = time.monotonic()
        async with AsyncExitStack() as stack:
            small = _DISKS if self._setup.full_s else ()
            disks = {each: stack.enter_context(small_disk.mounted(self._directory / each, _DISK_MIB)) for each in small}
            within = disks["redis"].path if disks else None
            theirs = clocks.Clocks(self._directory / "clocks") if self._setup.clocks else None
            self._redis = await stack.enter_async_context(Redundant(within=within, clocks=theirs))
            self._model = await stack.enter_async_context(ScriptedModel(self._sessions.plays.script))
            environment = self._setup.environment(self._model.base_url, self._ledger.path)
            if self._setup.outside:
                entered = outside(self._seed, self._limit_s, self._setup.tool_ms, silent=self._setup.silent)
                self._outside = [await stack.enter_async_context(entered)]
                environment |= self._outside[0].environment
            system = System(self._redis.url, self._directory, self._setup.counts, environment)
            system.launcher, system.clocks = self._setup.launcher, theirs
            self._system = await stack.enter_async_context(system)
            self._troubles = Troubles(
                self._system, self._redis, self._rng, self.report, self._setup.lease_s, self._look_for_losses,
                disks, self._setup.full_s, theirs,
            )  # fmt: skip
            if self._setup.hands:
                await wait_until("all tools are offered", self._offers_all, 60)
            for each in self._outside:
                await each.begin(self._gateways()[0], self._sessions.plays)
            clients = await stack.enter_async_context(AsyncExitStack())
            await self._burn(at_once, fire, clients)
            self.report.seconds = time.monotonic() - begun
            await self._check()
        return self.report

    async def _burn(self, at_once: int, fire: Fire, clients: AsyncExitStack) -> None:
        pulse = asyncio.create_task(self._feel_the_pulse())
        troublemaker = asyncio.create_task(self._trouble(fire))
        work = asyncio.create_task(self._work(at_once, clients))
        try:
            await asyncio.wait({work}, timeout=self._limit_s)
            self._calm.set()
            await troublemaker
            await self._troubles.close()
            await asyncio.wait({work}, timeout=fire.calm_s)
            if work.done():
                work.result()
        finally:
            self._calm.set()
            await cancel_all([work, pulse])
            await asyncio.wait({troublemaker})

    async def _feel_the_pulse(self) -> None:
        """Note when this process, which plays the model, was given no turn: nobody else was then, or waited for us."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(_PULSE_S)
            if time.monotonic() - last > 3 * _PULSE_S:
                self.report.stalls.append((last, time.monotonic()))
            last = time.monotonic()

    async def _trouble(self, fire: Fire) -> None:
        targets = [p for p in self._system.processes if not fire.victims or p.name in fire.victims]
        seen = 0
        for happens in fire.first:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._calm.wait(), fire.every_s)
            await happens(self._troubles)
        while len(self._troubles.done) < fire.most:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._calm.wait(), fire.every_s)
            while fire.aimed and not (self._calm.is_set() or self._in_the_middle(fire.victims, seen)):
                await asyncio.sleep(0.01)
            if self._calm.is_set():
                return
            self.report.faults += self._troubles.raise_the_dead()
            seen = len(self._ledger.lines())
            await self._troubles.make(fire.kinds, targets)

    def _in_the_middle(self, victims: Sequence[str], seen: int) -> bool:
        """Whether something is under way that the death of a victim cuts. ``seen``: lines of the ledger."""
        if "task-runner" in victims:
            return self._model.seen.answering > 0
        return bool(self._unsafe & self._ledger.running(seen))

    def _look_for_losses(self, primary: RedisServer) -> None:
        accepted = {message_id for follower in self._followers for message_id in follower.accepted}
        self.report.never_had |= checks.missing(accepted, primary.port)

    async def _work(self, at_once: int, clients: AsyncExitStack) -> None:
        """All sessions, and then until none has anything to do again."""
        room = asyncio.Semaphore(max(1, at_once // self._setup.each))

        async def one(number: int) -> None:
            async with room:
                await self._one(number, clients)

        erasing = self._teaching.burn() if self._teaching else asyncio.sleep(0)
        await asyncio.gather(erasing, *(one(n) for n in range(self._sessions.sessions)))
        self._calm.set()
        await self._sessions.settle()

    async def _one(self, number: int, clients: AsyncExitStack) -> None:
        kind = SseFollower if number % 3 == 2 else Follower
        follower = kind(self._gateways, f"chaos-{number}", first=number)
        self._followers.append(follower)
        await clients.enter_async_context(follower)
        await self._sessions.hold(number, follower)

    async def _offers_all(self) -> bool:
        async with AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{self._gateways()[0]}/v1/tools")
        return answer.is_success and {tool["name"] for tool in answer.json()["items"]} >= set(HANDS)

    def _gateways(self) -> list[str]:
        return [p.url for p in self._system.named("gateway")]

    async def _check(self) -> None:
        report = self.report
        report.faults += self._troubles.raise_the_dead()
        report.faults += await self._differences()
        report.ended = self._sessions.ended
        report.faults += await self._sessions.faults(self._gateways()[0], report)
        for follower in self._followers:
            report.reconnects += follower.reconnects
            report.sent_again += follower.sent_again
            report.started_over += follower.started_over
        for body in self._model.chats:
            report.prompts += 1
            report.faults += ill_formed(body["messages"])
        report.faults += checks.ledger_faults(self._ledger, self._unsafe, self._troubles, report)
        given_anew = self._system.said("had lost its wake-up")
        report.woken_anew = len(given_anew)
        if not self._troubles.any_takeover:  # a new primary may lack a wake-up; nothing else loses one
            report.faults += given_anew
        await self._came_outside()
        await self._remembered()
        self._measure()

    async def _differences(self) -> list[str]:
        """Return how clients differ from the server once all work has ended: a failover at the last end may
        undo it, so that the task ends again."""
        async with Redis.from_url(self._redis.primary.url) as redis:
            while True:
                found = await checks.unlike(redis, self._followers, self._setup.shards)
                if found or self._sessions.ended == self.report.tasks:
                    return found
                try:
                    await asyncio.wait_for(self._sessions.settle(), PATIENCE_S)
                except TimeoutError:
                    return []  # the report tells how many have ended

    async def _came_outside(self) -> None:
        """What came to webhooks, and what became of schedules."""
        undone = Undone(self._troubles.undone_at, self._troubles.lost_between)
        stalled_s = sum(end - begun for begun, end in self.report.stalls)
        late = self._setup.clocks or self._setup.full_s > 0 or stalled_s > _LATE_S
        for each in self._outside:
            found = await each.result(self._gateways()[0], self._redis.primary.url, self._ledger, undone, late=late)
            self.report.outside = found
            self.report.faults += found.faults

    async def _remembered(self) -> None:
        """What became of all that was said."""
        if self._teaching is not None:
            begun, facts, redis = time.monotonic(), self._sessions.facts, self._redis.primary
            self.report.facts = await self._teaching.result(facts, redis.url, self._setup.shards)
            self.report.settled_s = time.monotonic() - begun
            self.report.faults += self.report.facts.faults

    def _measure(self) -> None:
        """How long clients waited for nothing."""
        at_work = self._ledger.at_work([trouble.begun for trouble in self._troubles.done])
        thinking, troubles = self._sessions.plays.thinking, [(t.begun, t.over, t.kind) for t in self._troubles.done]
        full = [(t.begun, t.over) for t in self._troubles.done if t.kind == "full disk of redis"]  # nobody goes on then
        for name, news, numbers in self._sessions.tasks():
            work = [span for number in numbers for span in (*at_work.get(number, ()), *thinking.get(number, ()))]
            work += self.report.stalls + full
            happened = sorted(((self._when(each), each.tells) for each in news), key=itemgetter(0))
            self.report.silences.append(longest_silence(name, happened, work, troubles))
            learnt = sorted(((each.learnt, each.tells) for each in news), key=itemgetter(0))
            self.report.unseen.append(longest_silence(name, learnt, work, troubles))
        events = sorted(self._when(news) for follower in self._followers for news in follower.news)
        for trouble in self._troubles.done:
            took = recovery(trouble.begun, events)
            if took is not None:
                self.report.recoveries.setdefault(trouble.kind, []).append(took)

    def _when(self, news: NextEntry) -> float:
        """When it happened; where clocks step the client's own is the only one that can tell."""
        return news.learnt if self._setup.clocks else news.happened

    @property
    def _unsafe(self) -> set[str]:
        """The unsafe calls that have been asked for."""
        return {e["tool_call_id"] for f in self._followers for e in f.seen("tool_call") if e["tool"] in UNSAFE}

    def logs(self) -> str:
        """What the processes wrote, for a failing run."""
        return self._system.logs()


def _each_once(*, full_disks: bool, clocks: bool) -> list[Callable[[Troubles], Awaitable[None]]]:
    """What happens before anything happens by chance: each disk is full, and all clocks step back and forward again."""
    fills = [partial(Troubles.fill, whose=whose) for whose in _DISKS if full_disks]
    steps = [partial(Troubles.step_all, seconds=seconds) for seconds in (-STEP_S, STEP_S) if clocks]
    return [*steps[:1], *fills[:2], *steps[1:], *fills[2:]]


def main() -> int:
    """Exit code 1 when anything was wrong, or a task was silent for too long."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--minutes", type=float, default=5)
    cli.add_argument("--tasks", type=int, default=200)
    cli.add_argument("--each", type=int, default=1, help="tasks that a session has at once, 1 to 5")
    cli.add_argument("--at-once", type=int, default=12, help="tasks under way at a time")
    cli.add_argument("--shards", type=int, default=2)
    cli.add_argument("--replicas", type=int, default=0, help="PENTAD_REDIS_REPLICAS of the run")
    cli.add_argument("--grace", type=float, default=2.0, help="seconds after which a task that was alone is archived")
    cli.add_argument("--kills-only", action="store_true", help="no stops, no failovers")
    cli.add_argument(
        "--full-disks", type=float, default=0, metavar="S", help="disks are full for so many seconds, too; needs root"
    )
    cli.add_argument(
        "--clocks", action="store_true", help="clocks step ten minutes, all at once or one's alone; needs a C compiler"
    )
    cli.add_argument(
        "--hands", action="store_true", help="also calls that wait for approval, of an MCP server, and scripts"
    )
    cli.add_argument("--victims", nargs="+", choices=SEVERAL, default=[], help="the services to kill and stop, not all")
    cli.add_argument("--silence", type=float, default=3.0, help="seconds that 95 %% of the tasks may be silent")
    args = cli.parse_args()
    if args.hands and args.each > 1:
        cli.error("--hands is for sessions of one task")
    for why in (args.full_disks and small_disk.missing(), args.clocks and clocks.missing()):
        if why:
            cli.error(why)
    grace_s = args.grace if args.each == 1 else None
    setup = Setup(
        SEVERAL, args.shards, replicas=args.replicas, each=args.each, grace_s=grace_s, full_s=args.full_disks,
        clocks=args.clocks, hands=args.hands, outside=True, silent=True,
    )  # fmt: skip
    more = {**(FULL_DISKS if args.full_disks else {}), **(CLOCKS if args.clocks else {})}
    kinds = KILLS if args.kills_only else {**EVERYTHING, **more}
    fire = Fire(
        kinds,
        first=_each_once(full_disks=bool(args.full_disks), clocks=args.clocks),
        victims=args.victims,
        calm_s=_CALM_S,
    )
    with tempfile.TemporaryDirectory(prefix="pentad-chaos-") as directory:
        chaos = Chaos(Path(directory), args.seed, args.tasks, args.minutes, setup)
        report = asyncio.run(chaos.run(args.at_once, fire))
        print("\n".join(report.lines()))
        if report.faults or report.ended < report.tasks:
            print(chaos.logs(), file=sys.stderr)
            return 1
    return int(
        percentile([s.seconds for s in report.silences], 0.95) > args.silence
        or (args.replicas > 0 and bool(report.never_had))
    )


if __name__ == "__main__":
    raise SystemExit(main())
