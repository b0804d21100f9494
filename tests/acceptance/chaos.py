"""The scorecard of killed processes: tasks run while a random process is killed every two seconds.

By hand: ``make chaos SEED=1 MINUTES=5 TASKS=100``. The acceptance suite runs a short form.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.cancelling import cancel_all
from tests.support.follower import Follower
from tests.support.model_server import ScriptedModel
from tests.support.prompts import ill_formed
from tests.support.redis_server import RedisServer
from tests.support.replies import Reply, call, say
from tests.support.system import Process, System

TOOLS = ("slow_pure", "slow_idempotent", "slow_unsafe")
_CALM_S = 120.0
COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1, "archiver": 1}


@dataclass
class Report:
    """What happened; the test prints it, and fails on any fault."""

    tasks: int = 0
    ended: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    prompts: int = 0
    reconnects: int = 0
    calls: int = 0
    reruns: int = 0
    unknown: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The figures, a line each."""
        killed = ", ".join(f"{name} {n}" for name, n in sorted(self.kills.items()))
        return [
            f"tasks {self.ended} of {self.tasks} ended, {self.seconds:.0f} s, at most one kill at a time",
            f"kills {sum(self.kills.values())} ({killed})",
            f"prompts {self.prompts}, all well-formed" if not self.faults else f"prompts {self.prompts}",
            f"tool calls {self.calls}, run again {self.reruns}, reported unknown {self.unknown}",
            f"clients reconnected {self.reconnects} times",
            f"faults {len(self.faults)}",
            *self.faults[:20],
        ]


def make_plan(rng: random.Random, number: int) -> list[list[tuple[str, dict[str, Any]]]]:
    """One to four tool calls in one to three model answers."""
    calls = [
        (rng.choice(TOOLS), {"ms": rng.randint(0, 2000), "tag": f"{number}.{n}"}) for n in range(rng.randint(1, 4))
    ]
    steps: list[list[tuple[str, dict[str, Any]]]] = []
    for one in calls:
        if steps and rng.random() < 0.5:
            steps[-1].append(one)
        else:
            steps.append([one])
    return steps


def script(request: dict[str, Any]) -> Reply:
    """Plays the plan that the last user message holds, step by step."""
    messages = request["messages"]
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    plan = json.loads(messages[last]["content"])
    done = sum(1 for m in messages[last:] if m["role"] == "assistant")
    if done < len(plan["steps"]):
        return call(*((name, args) for name, args in plan["steps"][done]), first_delay=0.3)
    return say(f"task {plan['task']} is done, and this is what its answer looks like", chunks=8, delay=0.05)


class Chaos:
    """One run."""

    def __init__(self, directory: Path, seed: int, tasks: int, minutes: float, shards: int = 1) -> None:
        self._directory, self._rng, self._shards = directory, random.Random(seed), shards
        self._tasks, self._limit_s = tasks, minutes * 60
        self._ledger = directory / "ledger"
        self._plans = [make_plan(self._rng, n) for n in range(tasks)]
        self.report = Report(tasks=tasks)
        self._followers: list[Follower] = []
        self._calm = asyncio.Event()
        """Nothing is killed any more."""

    async def run(
        self,
        at_once: int,
        kill_every_s: float = 2.0,
        victims: Sequence[str] = (),
        launcher: Sequence[str] = (),
        lease_s: float = 2.0,
        aimed: bool = False,
        most_kills: int = sys.maxsize,
        calm_s: float = 0.0,
    ) -> Report:
        """Run all tasks, at most ``at_once`` at a time, under fire.

        ``victims`` are the services to kill (all when empty); ``launcher`` starts them in another way than usual.
        ``aimed``: kill only while an unsafe call runs, however slowly the machine gets there. ``most_kills``: then the
        system is left alone, and what is not done in the end never will be. ``calm_s``: seconds without kills for what
        is not done when the time is up: on a slow machine that is not yet a fault.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._ledger.touch()
        begun = time.monotonic()
        async with AsyncExitStack() as stack:
            redis = await stack.enter_async_context(RedisServer(aof="everysec"))
            self._model = await stack.enter_async_context(ScriptedModel(script))
            environment = {
                "LLM_BASE_URL": self._model.base_url,
                "PENTAD_PLUGINS": "tests.support.chaos_tools",
                "CHAOS_LEDGER": str(self._ledger),
                "PENTAD_GRACE_S": "600",
                "PENTAD_SHARDS": str(self._shards),
                "PENTAD_LEASE_S": str(lease_s),
            }
            self._system = await stack.enter_async_context(
                System(redis.url, self._directory, COUNTS, environment, launcher)
            )
            targets = [p for p in self._system.processes if not victims or p.name in victims]
            killer = asyncio.create_task(self._kill(targets, kill_every_s, aimed, most_kills))
            try:
                work = asyncio.create_task(self._work(at_once))
                await asyncio.wait({work}, timeout=self._limit_s)
                self._calm.set()
                await killer
                await asyncio.wait({work}, timeout=calm_s)
                if work.done():
                    work.result()
            finally:
                self._calm.set()
                await cancel_all([work])
                await asyncio.wait({killer})
            self.report.seconds = time.monotonic() - begun
            await self._check()
        return self.report

    async def _kill(self, targets: Sequence[Process], every_s: float, aimed: bool, most: int) -> None:
        seen = 0
        while self.report.kills.total() < most:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._calm.wait(), every_s)
            while aimed and not (self._calm.is_set() or self._unsafe & self._running(seen)):
                await asyncio.sleep(0.01)
            if self._calm.is_set():
                return
            seen = len(self._ledger.read_text().splitlines())
            victim = self._rng.choice(targets)
            await asyncio.to_thread(self._system.restart, victim)
            self.report.kills[victim.name] += 1

    async def _work(self, at_once: int) -> None:
        room = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with room:
                await self._one(number)

        await asyncio.gather(*(one(n) for n in range(self._tasks)))

    async def _one(self, number: int) -> None:
        def gateways() -> list[str]:
            return [p.url for p in self._system.named("gateway")]

        follower = Follower(gateways, f"chaos-{number}")
        self._followers.append(follower)
        async with follower:
            plan = {"task": number, "steps": self._plans[number]}
            await follower.send(json.dumps(plan), f"m-{number}")
            while not follower.seen("task_end"):
                await asyncio.sleep(0.05)
            self.report.ended += 1

    async def _check(self) -> None:
        faults = self.report.faults
        for number, follower in enumerate(sorted(self._followers, key=lambda f: int(f.session.split("-")[1]))):
            self.report.reconnects += follower.reconnects
            faults += follower.faults
            faults += self._faults_of(number, follower)
        for body in self._model.chats:
            self.report.prompts += 1
            faults += ill_formed(body["messages"])
        faults += self._ledger_faults()

    def _faults_of(self, number: int, follower: Follower) -> list[str]:
        """What a session's events must be: each durable one once, one end for the start, the plan's calls once."""
        plan, who = self._plans[number], follower.session
        wanted = Counter(name for step in plan for name, _ in step)
        counts = {
            "message_routed": 1,
            "task_start": 1,
            "task_end": 1,
            "message": 1,
            "tool_call": wanted.total(),
            "tool_result": wanted.total(),
        }
        faults = [
            f"{who}: {len(follower.seen(kind))} {kind}, expected {count}"
            for kind, count in counts.items()
            if len(follower.seen(kind)) != count
        ]
        ids = Counter(e["event_id"] for e in follower.events if "event_id" in e)
        faults += [f"{who}: event {i} came {n} times" for i, n in ids.items() if n > 1]
        asked = Counter(e["tool"] for e in follower.seen("tool_call"))
        if asked != wanted:
            faults.append(f"{who}: asked for {dict(asked)}, planned {dict(wanted)}")
        faults += [
            f"{who}: ended {e['status']} {e['reason']}" for e in follower.seen("task_end") if e["status"] != "completed"
        ]
        for result in follower.seen("tool_result"):
            self.report.calls += 1
            if "outcome unknown" in (result.get("error") or ""):
                self.report.unknown += 1
            elif result.get("error"):
                faults.append(f"{who}: {result['tool']} failed: {result['error']}")
        return faults

    @property
    def _unsafe(self) -> set[str]:
        """The unsafe calls that have been asked for."""
        return {e["tool_call_id"] for f in self._followers for e in f.seen("tool_call") if e["tool"] == "slow_unsafe"}

    def _written(self, wanted: str, after: int = 0) -> Counter[str]:
        """How often each call has started or ended, by the tools' own ledger behind so many lines."""
        lines = (line.split() for line in self._ledger.read_text().splitlines()[after:])
        return Counter(call_id for word, call_id, _ in lines if word == wanted)

    def _running(self, after: int) -> set[str]:
        """The calls that have started behind so many lines of the ledger, and not ended."""
        return set(self._written("start", after) - self._written("end", after))

    def _ledger_faults(self) -> list[str]:
        """No unsafe call starts twice."""
        starts = self._written("start")
        self.report.reruns = sum(n - 1 for n in starts.values() if n > 1)
        return [f"unsafe call {c} started {starts[c]} times" for c in sorted(self._unsafe) if starts[c] > 1]

    def logs(self) -> str:
        """What the processes wrote, for a failing run."""
        return self._system.logs()


def main() -> int:
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--minutes", type=float, default=5)
    cli.add_argument("--tasks", type=int, default=100)
    cli.add_argument("--at-once", type=int, default=12)
    cli.add_argument("--shards", type=int, default=1)
    args = cli.parse_args()
    with tempfile.TemporaryDirectory(prefix="pentad-chaos-") as directory:
        chaos = Chaos(Path(directory), args.seed, args.tasks, args.minutes, args.shards)
        report = asyncio.run(chaos.run(args.at_once, calm_s=_CALM_S))
        print("\n".join(report.lines()))
        if report.faults or report.ended < report.tasks:
            print(chaos.logs(), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
