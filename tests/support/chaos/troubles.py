"""Faults of a running system: kills, stops, failovers, full disks, steps of clocks; one at a time, by a seed."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tests.support.chaos.report import Report
from tests.support.processes.clocks import Clocks
from tests.support.processes.system import Process, System, clock_of
from tests.support.redis.failover import End, Redundant, clock_of_server
from tests.support.redis.redis_server import RedisServer
from tests.support.small_disk import SmallDisk

Kind = Literal["kill", "stop", "demotion", "new primary", "full disk", "clock"]
EVERYTHING: Mapping[Kind, float] = {"kill": 0.5, "stop": 0.25, "demotion": 0.1, "new primary": 0.15}
"""Probability of each kind of fault."""
KILLS: Mapping[Kind, float] = {"kill": 1}
FULL_DISKS: Mapping[Kind, float] = {"full disk": 0.15}
CLOCKS: Mapping[Kind, float] = {"clock": 0.5}
STEP_S = 600
"""Seconds by which a clock steps, forward or back; no clock differs by more from the others."""
_ALL = 0.5
"""Share of the steps that all clocks make together."""
_ENDS: Sequence[End] = ("killed", "paused", "demoted")
_LAGS_S = (0.0, 0.1, 0.5)
_LOST_BEFORE_S = 0.5
"""Seconds before a failover in which writes may be lost in addition to the lag, because they were on their way."""

_ON_THE_WAY_S = 20.0
"""Seconds after a failover in which a gateway may still send what it has read before."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault, with its begin and end by the monotonic clock."""

    kind: str
    begun: float
    over: float


class Troubles:
    """Makes faults, and remembers their times."""

    def __init__(
        self, system: System, redis: Redundant, rng: random.Random, report: Report, lease_s: float,
        check: Callable[[RedisServer], None], disks: Mapping[str, SmallDisk], full_s: float,
        clocks: Clocks | None,
    ) -> None:  # fmt: skip
        """``disks``: disks by content; ``full_s``: seconds that one is full; ``clocks``: all processes' clocks."""
        self._system, self._redis, self._rng, self._report = system, redis, rng, report
        self._lease_s, self._check = lease_s, check
        self._disks, self._full_s, self._clocks = disks, full_s, clocks
        self._turn: list[str] = []
        """Disks that are filled next, each once before any is filled again."""
        self.done: list[Trouble] = []
        self._rising: set[asyncio.Task[None]] = set()
        """Tasks that wait for killed processes to be ready again, each with its service's name."""

    async def make(self, kinds: Mapping[Kind, float], targets: Sequence[Process]) -> None:
        """Make one fault of these kinds, and return when it is over."""
        targets = self._up(targets)
        kind: str = self._rng.choices(list(kinds), list(kinds.values()))[0]
        begun = time.monotonic()
        if kind == "full disk":
            self._turn = self._turn or self._rng.sample(sorted(self._disks), len(self._disks))
            await self.fill(self._turn.pop())
            return
        if kind == "clock":
            await self._step_some()
            return
        if kind == "demotion":
            self._report.failovers[kind] += 1
            await self._redis.demote_for(self._rng.uniform(0.3, 1.5))
        elif kind == "new primary":
            old, lag = self._rng.choice(_ENDS), self._rng.choice(_LAGS_S)
            self._report.failovers[f"{kind} ({old}{', lag' if lag else ''})"] += 1
            await self._redis.take_over(old, lag, self._check)
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
        self._note(kind, begun)

    def _note(self, kind: str, begun: float) -> None:
        self.done.append(Trouble(kind, begun, time.monotonic()))

    def _up(self, targets: Sequence[Process]) -> Sequence[Process]:
        """Return the targets whose service has no starting process, so that one of two always runs."""
        rising = {task.get_name() for task in self._rising if not task.done()}
        return [p for p in targets if p.name not in rising] or targets

    async def close(self) -> None:
        """Wait until all that was killed is ready again."""
        await asyncio.gather(*self._rising, return_exceptions=True)

    async def fill(self, whose: str) -> None:
        """Fill a disk for a while; writes to other disks go on."""
        begun, disk = time.monotonic(), self._disks[whose]
        self._report.full_disks[whose] += 1
        await asyncio.to_thread(disk.fill)
        try:
            await asyncio.sleep(self._full_s)
        finally:
            await asyncio.to_thread(disk.free)
        self._note(f"full disk of {whose}", begun)

    async def _step_some(self) -> None:
        """Step all clocks together, or the clock of one host."""
        assert self._clocks is not None
        if self._rng.random() < _ALL:
            await self.step_all(self._rng.choice(_steps(self._clocks.common)))
            return
        hosts = [(process.name, clock_of(process)) for process in self._system.processes]
        hosts += [("redis", clock_of_server(self._redis.primary)), ("replica", clock_of_server(self._redis.replica))]
        name, clock = self._rng.choice(hosts)
        seconds = self._rng.choice(_steps(self._clocks.off(clock)))
        self._step(f"{name} alone", partial(self._clocks.step, [clock]), seconds)

    async def step_all(self, seconds: int) -> None:
        """Step the clocks of all processes together, those of the Redis servers, too."""
        assert self._clocks is not None
        self._step("all", self._clocks.step_all, seconds)

    def _step(self, whose: str, step: Callable[[int], None], seconds: int) -> None:
        begun, what = time.monotonic(), f"{whose} {seconds // 60:+d} min"
        step(seconds)
        self._report.clock_steps[what] += 1
        self._note(f"clock of {what}", begun)

    async def _stop(self, victim: Process) -> None:
        """Stop a process for longer than its leases, so that others take its work before it continues."""
        self._report.stops[victim.name] += 1
        self._system.pause(victim)
        try:
            await asyncio.sleep(self._lease_s * self._rng.uniform(1.1, 2.5))
        finally:
            with suppress(ProcessLookupError):
                self._system.resume(victim)

    def lost_between(self, first: float, second: float) -> bool:
        """Return whether a write at the first moment may have been lost by the second."""
        return any(t.begun - _LOST_BEFORE_S <= first <= t.over and second >= t.begun for t in self._takeovers)

    def undone_at(self, at: float) -> bool:
        """Return whether what was sent at a moment may be of a history that a new primary lacks."""
        return any(t.begun - _LOST_BEFORE_S <= at <= t.over + _ON_THE_WAY_S for t in self._takeovers)

    @property
    def any_takeover(self) -> bool:
        """Return whether there was a new primary, which may lack the last writes."""
        return bool(self._takeovers)

    @property
    def _takeovers(self) -> list[Trouble]:
        return [t for t in self.done if t.kind == "new primary"]

    def raise_the_dead(self) -> list[str]:
        """Restart processes that have ended by themselves, as an orchestrator would; return their names."""
        names = []
        for process in self._system.ended():
            assert process.running is not None
            names.append(f"{process.name} ended by itself with {process.running.returncode}")
            self._system.start(process)
        return names


def _steps(off: int) -> Sequence[int]:
    """Return the steps that are allowed for a clock with this offset in seconds."""
    return [seconds for seconds in (STEP_S, -STEP_S) if abs(off + seconds) <= STEP_S]
