"""What is done to a running system: kills, stops past the lease, failovers; one at a time, by a seed's choice."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from tests.support.chaos.report import Report
from tests.support.processes.system import Process, System
from tests.support.redis.failover import End, Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.small_disk import SmallDisk

Kind = Literal["kill", "stop", "demotion", "new primary", "full disk"]
EVERYTHING: Mapping[Kind, float] = {"kill": 0.5, "stop": 0.25, "demotion": 0.1, "new primary": 0.15}
"""How often each kind is chosen, of 1."""
KILLS: Mapping[Kind, float] = {"kill": 1}
WITH_DISKS: Mapping[Kind, float] = {**EVERYTHING, "full disk": 0.1}
_ENDS: Sequence[End] = ("killed", "paused", "demoted")
_LAGS_S = (0.0, 0.1, 0.5)
_LOST_BEFORE_S = 0.5
"""What was written so long before a failover may be missing beyond the lag: it was on its way."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault: when it began and was over, and what it was."""

    kind: str
    begun: float
    over: float


class Troubles:
    """Does them, and remembers when."""

    def __init__(
        self, system: System, redis: Redundant, rng: random.Random, report: Report, lease_s: float,
        check: Callable[[RedisServer], None], disks: Mapping[str, SmallDisk], full_s: float,
    ) -> None:  # fmt: skip
        """``disks``: by what is on them; ``full_s``: how long one is full."""
        self._system, self._redis, self._rng, self._report = system, redis, rng, report
        self._lease_s, self._check = lease_s, check
        self._disks, self._full_s = disks, full_s
        self.done: list[Trouble] = []
        self._rising: set[asyncio.Task[None]] = set()
        """Waits for killed processes to be ready again, each named as its service is."""

    async def make(self, kinds: Mapping[Kind, float], targets: Sequence[Process]) -> None:
        """One fault of these kinds; returns when it is over."""
        targets = self._up(targets)
        kind: str = self._rng.choices(list(kinds), list(kinds.values()))[0]
        begun = time.time()
        if kind == "demotion":
            self._report.failovers[kind] += 1
            await self._redis.demote_for(self._rng.uniform(0.3, 1.5))
        elif kind == "new primary":
            old, lag = self._rng.choice(_ENDS), self._rng.choice(_LAGS_S)
            self._report.failovers[f"{kind} ({old}{', lag' if lag else ''})"] += 1
            await self._redis.take_over(old, lag, self._check)
        elif kind == "full disk":
            whose = self._rng.choice(sorted(self._disks))
            kind = f"full disk of {whose}"
            self._report.full_disks[whose] += 1
            await self._fill(self._disks[whose])
        elif kind == "stop":
            victim = self._rng.choice(targets)
            kind = f"stop of {victim.name}"
            await self._stop(victim)
        else:
            victim = self._rng.choice(targets)
            kind = f"kill of {victim.name}"
            await asyncio.to_thread(self._system.restart, victim)
            self._report.kills[victim.name] += 1
            self._rising = {t for t in self._rising if not t.done()}
            self._rising.add(asyncio.create_task(self._system.ready(victim), name=victim.name))
        self.done.append(Trouble(kind, begun, time.time()))

    def _up(self, targets: Sequence[Process]) -> Sequence[Process]:
        """Those of services none of whose processes is on its way up: where there are two, one is there."""
        rising = {task.get_name() for task in self._rising if not task.done()}
        return [p for p in targets if p.name not in rising] or targets

    async def close(self) -> None:
        """Wait until all that was killed is ready again."""
        await asyncio.gather(*self._rising, return_exceptions=True)

    async def _fill(self, disk: SmallDisk) -> None:
        """No room for a while; others write on meanwhile."""
        await asyncio.to_thread(disk.fill)
        try:
            await asyncio.sleep(self._full_s)
        finally:
            await asyncio.to_thread(disk.free)

    async def _stop(self, victim: Process) -> None:
        """Longer than its leases: what it holds goes to others, and then it goes on with what it knows."""
        self._report.stops[victim.name] += 1
        self._system.pause(victim)
        try:
            await asyncio.sleep(self._lease_s * self._rng.uniform(1.1, 2.5))
        finally:
            with suppress(ProcessLookupError):
                self._system.resume(victim)

    def lost_between(self, first: float, second: float) -> bool:
        """Whether what was written at the first moment may have been lost by the second."""
        return any(t.begun - _LOST_BEFORE_S <= first <= t.over and second >= t.begun for t in self._takeovers)

    @property
    def any_takeover(self) -> bool:
        """Whether there was a new primary, which may lack what was written last."""
        return bool(self._takeovers)

    @property
    def _takeovers(self) -> list[Trouble]:
        return [t for t in self.done if t.kind == "new primary"]

    def raise_the_dead(self) -> list[str]:
        """Start again what has ended by itself, as an orchestrator would; returns the names."""
        names = []
        for process in self._system.ended():
            assert process.running is not None
            names.append(f"{process.name} ended by itself with {process.running.returncode}")
            self._system.start(process)
        return names
