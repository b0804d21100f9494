"""Faults of the server itself: it loses its last writes, as a replica does that is promoted, and its clock steps."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from tests.support.interleave.clockwork import VirtualLoop
from tests.support.interleave.outside import Outside
from tests.support.interleave.place_checks import PlaceWatch
from tests.support.interleave.server import Server
from tests.support.interleave.store import SteppedWire
from tests.support.interleave.users import Users

_LAGS_S = (0.005, 0.02, 0.1, 0.35)
"""Lags of replicas, all shorter than the grace time, so that the steps of a written record are never lost."""
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class Around:
    """The parts of a run that a fault of the server affects."""

    server: Server
    loop: VirtualLoop
    chance: Random
    users: Users
    outside: Outside
    places: PlaceWatch
    wires: Callable[[], Iterable[SteppedWire]]
    """Function that returns the open connections."""


async def lose_writes(around: Around, every_s: float) -> None:
    """Put the server back to an earlier state now and then, forever; everyone else continues with newer knowledge."""
    server, chance, outside = around.server, around.chance, around.outside
    while True:
        await asyncio.sleep(chance.expovariate(1 / every_s))
        copy, had, started, begun = server.copy(), around.users.remember(), _started(server), len(outside.begun)
        await asyncio.sleep(chance.choice(_LAGS_S) * chance.uniform(0.5, 1))
        outside.may_run_again.update((_started(server) | set(outside.begun[begun:])) - started)
        server.put_back(copy, forget_scripts=chance.random() < 0.5)
        around.places.forget()
        for wire in around.wires():
            wire.break_off()
        await around.users.after_failover(had)


def _started(server: Server) -> set[str]:
    """Return the tool calls that have started by the server's data."""
    started = set()
    for key in server.ask("KEYS", "pentad:*:calls"):
        states = server.ask("HGETALL", key)
        started |= {i.decode() for i, s in zip(states[::2], states[1::2], strict=True) if s.startswith(b"started")}
    return started


async def step_clock(around: Around, every_s: float) -> None:
    """Step the server's clock back or forward now and then, forever: by a little, up to a minute, or an hour."""
    loop, chance = around.loop, around.chance
    while True:
        await asyncio.sleep(chance.expovariate(1 / every_s))
        size = chance.choice((chance.randint(1, 3000), chance.randint(1, _MINUTE_MS), _HOUR_MS))
        forward = chance.random() < (0.3 if loop.skew_ms > 0 else 0.7 if loop.skew_ms < 0 else 0.5)
        loop.skew_ms += size if forward else -size
