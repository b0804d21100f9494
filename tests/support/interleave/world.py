"""One run: processes on a server, users, chaos, and then the wait for quiet."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from pentad.contracts.streams import ARCHIVE, DEAD, INBOUND, SESSION_WAKE, TASK_WAKE
from pentad.shared.actors.actors import Actors
from pentad.shared.keys import TaskKeys, timers
from pentad.shared.settings import Settings
from tests.support.interleave.checks import forget_records, problems
from tests.support.interleave.clockwork import VirtualLoop, owner
from tests.support.interleave.faults import Around, lose_writes, step_clock
from tests.support.interleave.movers import Mover
from tests.support.interleave.operators import OPERATORS, Ledger, Operator
from tests.support.interleave.outside import Outside
from tests.support.interleave.patches import patched
from tests.support.interleave.place_checks import PlaceWatch
from tests.support.interleave.processes import QUEUE, ROLES, Archiver, Parts, Process, Router, Runner, Worker
from tests.support.interleave.rule import Rule, Stress
from tests.support.interleave.server import Server, virtual_scripts
from tests.support.interleave.store import SteppedStore, SteppedWire
from tests.support.interleave.users import Habits, Users

WRITING_S, CHAOS_S, LIMIT_S = 4.0, 6.0, 25.0
_SETTLED_S = 8.0
"""Seconds within which work that waits for no timer is done, whatever the server's clock says."""
_COMMAND_S = 0.0015
_SET_ASIDE = 0.4
"""Share of the runs under every stress in which work is set aside."""
_FEW_PLACES = 0.4
"""Share of the runs under every stress in which few tasks may be active at once."""
_LOOKED_AT_S = 0.01
_DISTURBED: Mapping[Stress, type[Process]] = {
    "inbound": Router, "tools": Worker, "archive": Archiver, "runner": Runner, "redrive": Operator,
    "move": Runner,
}  # fmt: skip
WORK = ((INBOUND.key(), "router"), (SESSION_WAKE.key(0), "router"), (TASK_WAKE.key(0), "task-runner"),
        (QUEUE, "tool-worker"), (ARCHIVE.key(0), "archiver"))  # fmt: skip


class World:
    """The whole run of one seed."""

    def __init__(self, server: Server, seed: int, broken: Rule | None, messages: int = 20) -> None:
        self.server, self.seed = server, seed
        self.chance = random.Random(seed)
        self.loop = VirtualLoop(self._idle)
        self._stress: Stress = broken.stress if broken else "all"
        self._broken = broken is not None and broken.broken
        own = random.Random(f"{seed} of its own")
        also = self._stress == "all" and not self._broken and own.random() < _SET_ASIDE
        self._redrives = self._stress == "redrive" or also
        """Whether work is set aside now and then, with operators who redrive it; the server then loses no writes."""
        slept = 0.3 if self._stress == "timeout" or also else 0.0
        lively = self._stress in ("life", "limits", "moving-life", "graphs")
        chosen = random.Random(f"{seed} of places")
        self._few = self._stress == "limits" or (
            self._stress == "all" and not self._broken and chosen.random() < _FEW_PLACES
        )
        """Whether only few tasks may be active at once."""
        per_session, per_tenant = (chosen.choice((1, 2)), chosen.choice((2, 3))) if self._few else (1000, 1000)
        self.outside = Outside(self.chance, own, 0.08 if self._redrives else 0.0, slept, 0.25 if lively else 0.0)
        if self._stress == "queue" or self._stress == "interrupt":
            self.outside.policy = self._stress
        self.ledger = Ledger()
        self._scripts = virtual_scripts(broken)
        self.settings = Settings(
            pentad_lease_s=0.5,
            pentad_grace_s=0.4,
            pentad_step_timeout_s=1.2,
            pentad_stale_s=1 if lively else 86_400,
            pentad_tasks_per_session=per_session,
            pentad_tasks_per_tenant=per_tenant,
            pentad_records_url=f"memory://run-{seed}",
        )
        self._count = 0
        self._processes: list[Process] = []
        self._gateway = self._store()
        actors = Actors(self._gateway, "gateway", self.settings.lease_ms)
        habits = Habits(
            messages=messages * (4 if self._stress == "inbound" else 1),
            cancels=0.9 if self._stress == "cancel" else 0.3,
            names=0.6 if self._stress == "archive" else 0.25,
            pauses=0.7 if lively else 0.0,
            graphs=0.6 if self._stress == "graphs" else 0.0,
        )
        self.users = Users(server, self.loop, actors, self.chance, habits)
        self.places = PlaceWatch(server, self.users.sessions, per_session, per_tenant)
        self.hung = False
        self.unsettled: list[str] = []
        """Work that waited for the clock although it needs none."""

    # What happens next

    def _idle(self, timeout: float | None) -> None:
        """Let one process take one step, or let time pass until the next timer."""
        now = self.loop.clock
        ready = [p.store.wire for p in self._processes if p.store.wire.has_work and p.paused_until <= now]
        if self._gateway.wire.has_work:
            ready.append(self._gateway.wire)
        if ready:
            self.chance.choice(ready).step()
            self.loop.clock += self.chance.expovariate(1 / _COMMAND_S)
            return
        waits = [p.paused_until - now for p in self._processes if p.store.wire.has_work]
        if timeout is not None:
            waits.append(timeout)
        self.loop.clock += max(min(waits), 1e-4)

    def _store(self) -> SteppedStore:
        return SteppedStore(self.server, self.loop, self._scripts, self.chance)

    def _start(self, role: type[Process]) -> Process:
        self._count += 1
        name = f"{role.__name__.lower()}-{self._count}"
        process = role(Parts(name, self._store(), self.settings, self.outside, self.chance, self.ledger))
        process.start()
        return process

    # Chaos

    async def _disturb(self) -> None:
        while True:
            role = _DISTURBED.get(self._stress, Process)
            await asyncio.sleep(self.chance.expovariate(6 if role is Process else 12))
            at = self.chance.choice([n for n, p in enumerate(self._processes) if isinstance(p, role)])
            process, what = self._processes[at], self.chance.random()
            if what < 0.45:
                process.paused_until = self.loop.clock + self.chance.uniform(0.05, 1.6)
            elif what < 0.8:
                process.kill()
                self._processes[at] = self._start(type(process))
            else:
                process.stop()
                self._processes.append(self._start(type(process)))

    async def _watch_places(self) -> None:
        while True:
            self.places.look()
            await asyncio.sleep(_LOOKED_AT_S)

    def _server_faults(self) -> list[asyncio.Future[None]]:
        """By the seed's choice the server loses writes, or its clock steps, or both, or neither."""
        around = Around(self.server, self.loop, self.chance, self.users, self.outside, self.places, self._wires)
        often = {"lost": (0.6, 0.0), "clock": (0.0, 0.6), "timeout": (0.0, 1.5)}.get(self._stress)
        if often is None:
            draw = self.chance.random() if self._stress == "all" and not self._broken else 1.0
            loses = draw < 0.4 and not self._redrives
            often = (1.5 if loses else 0.0, 1.5 if 0.3 < draw < 0.7 else 0.0)
        kinds = zip((lose_writes, step_clock), often, strict=True)
        return [asyncio.ensure_future(fault(around, every_s)) for fault, every_s in kinds if every_s]

    def _wires(self) -> list[SteppedWire]:
        return [self._gateway.wire, *(p.store.wire for p in self._processes)]

    async def _calm(self) -> None:
        self.outside.calm = True
        for process in self._processes:
            process.paused_until, process.store.wire.lossy = 0, 0

    async def _live(self) -> list[str]:
        inbound = self._stress == "inbound"
        roles = (*ROLES, *OPERATORS) if self._redrives else ROLES
        if self._stress in ("move", "moving-life"):
            roles = (*ROLES, Mover, Mover)
        for role in (Router,) * 4 if inbound else roles:
            self._processes.append(self._start(role))
            self._processes[-1].store.wire.lossy = 0.01
        disturb = asyncio.ensure_future(self._disturb())
        faults = [disturb, *self._server_faults()]
        watch = asyncio.ensure_future(self._watch_places()) if self._few else None
        writing = asyncio.ensure_future(self.users.write(WRITING_S))
        await asyncio.sleep(CHAOS_S)
        for fault in faults:
            fault.cancel()
        await self._calm()
        await writing
        if inbound:
            self._processes += [self._start(role) for role in ROLES if role is not Router]
        await self._settle()
        await self._quiet()
        if watch is not None:
            watch.cancel()
        found = self.places.problems + problems(self)
        for process in self._processes:
            process.kill()
        return found

    async def _settle(self) -> None:
        """Check that work without a timer is done although the clock has stepped, and timers still fire."""
        if self.loop.skew_ms:
            begun = self.loop.clock
            while late := self.left():
                if self.loop.clock - begun > _SETTLED_S:
                    self.unsettled = [f"after the clock's step work is left in {late}"]
                    break
                await asyncio.sleep(0.3)

    async def _quiet(self) -> None:
        """Wait until there is nothing to do any more; tasks that wait for a person are cancelled after a while."""
        begun = self.loop.clock
        while self._busy():
            if self.loop.clock - begun > LIMIT_S:
                self.hung = True
                return
            await asyncio.sleep(0.3)
            if self.loop.clock - begun > 2:
                for task in self.waiting():
                    await self.users.cancel(task)

    def tasks(self) -> list[str]:
        """Tasks that are still in Redis."""
        keys = self.server.ask("KEYS", "pentad:{0}:task:default:*")
        return sorted({key.decode().split(":")[4] for key in keys})

    def waiting(self) -> list[str]:
        """Tasks that wait for a person."""
        waiting = []
        for task in self.tasks():
            status, created = self.server.ask("HMGET", TaskKeys(0, "default", task).header, "status", "created")
            if status in (b"waiting", b"stale"):
                waiting.append((int(created), task))
        return [task for _, task in sorted(waiting)]

    def _busy(self) -> bool:
        letters = self._redrives and self.server.ask("XLEN", DEAD.key(0))
        return bool(self.tasks() or self.left() or letters or self.server.ask("ZCARD", timers(0)))

    def left(self) -> list[str]:
        """Return the streams with unfinished work."""
        return [key for key, group in WORK if self.pending(key, group)]

    def pending(self, key: str, group: str) -> int:
        """Entries of a stream that are not acknowledged, or not even read."""
        groups = [dict(zip(g[::2], g[1::2], strict=True)) for g in self.server.ask("XINFO", "GROUPS", key)]
        mine = next(g for g in groups if g[b"name"].decode() == group)
        return int(mine[b"pending"]) + int(mine[b"lag"] or 0)

    def run(self) -> list[str]:
        """Run the seed, and return the broken promises."""
        random.seed(self.seed)
        self.server.begin(self._scripts)
        forget_records(self)
        asyncio.set_event_loop(self.loop)
        try:
            main: asyncio.Task[Any] = self.loop.create_task(self._live())
            found: list[str] = self.loop.run_until_complete(main)
            self._drop_rest()
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
        return found

    def _drop_rest(self) -> None:
        rest = asyncio.all_tasks(self.loop)
        for task in rest:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))


def run(server: Server, seed: int, broken: Rule | None = None) -> list[str]:
    """Run one seed, and return the broken promises."""
    assert owner.get() is None
    with patched(broken.patches if broken is not None else ()):
        return World(server, seed, broken).run()
