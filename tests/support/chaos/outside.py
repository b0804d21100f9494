"""The part of a chaos run outside the conversation: webhooks with a receiver that fails, and schedules.

Two webhooks get the events of all sessions, and the ends of one session's tasks. Schedules of each kind have messages
sent while everything dies. In the end what came is compared with what Redis holds, what was due with what was done.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from pentad.contracts.events import EPHEMERAL
from pentad.contracts.ids import milliseconds
from tests.support.chaos.deliveries import DeliveryCount, Held, deliveries_counted
from tests.support.chaos.eraser import ERASED_SESSIONS
from tests.support.chaos.ledger import Ledger
from tests.support.chaos.plan import Model
from tests.support.chaos.receiver import UnsteadyReceiver, unsteady_receiver
from tests.support.chaos.timetable import QUEUE_SESSION, Timed, TimedRuns, starts_of, teach, timetable
from tests.support.chaos.timetable_checks import RunCount, runs_counted
from tests.support.clients.api import Api
from tests.support.outside.webhook_receiver import SECRET
from tests.support.waiting import PATIENCE_S, wait_until

_ENDS = ("task_start", "task_end")
"""Events that the webhook of one session asks for."""
_SILENT_S = 20.0
"""Seconds for which the receiver of a long run may be silent, which is longer than gateways wait."""
_LOOK_S = 0.3
_OPEN = {"planned", "sending", "accepted", "running"}


@dataclass(frozen=True, slots=True)
class Undone:
    """What failovers may have undone."""

    sent_at: Callable[[float], bool]
    """Whether what was sent at this moment may be of a history that a new primary lacks."""
    between: Callable[[float, float], bool]
    """Whether what was written at the first moment may have been lost by the second."""


@dataclass(frozen=True, slots=True)
class OutsideCount:
    """The figures of the scorecard."""

    deliveries: DeliveryCount
    runs: RunCount
    failures: Mapping[str, int]
    seconds: float
    """Seconds until all was there, after the last fault."""

    @property
    def faults(self) -> tuple[str, ...]:
        return (*self.deliveries.faults, *self.runs.faults)

    def lines(self) -> list[str]:
        """The figures, a line each."""
        failed = ", ".join(f"{way} {count}" for way, count in sorted(self.failures.items())) or "0"
        return [
            f"{self.deliveries.line()}; the receiver failed: {failed}",
            f"{self.runs.line()}; all was there {self.seconds:.1f} s after the last fault",
        ]


class Outside:
    """Registers webhooks and schedules, and checks them. ``limit_s``: seconds that the run takes at most."""

    def __init__(self, receiver: UnsteadyReceiver, limit_s: float, tool_ms: int) -> None:
        self._receiver, self._limit_s, self._tool_ms = receiver, limit_s, tool_ms
        self._timed: Sequence[Timed] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings of services that it needs."""
        return {"PENTAD_WEB_ALLOW": self._receiver.place, "PENTAD_SCHEDULE_S": "1"}

    async def begin(self, gateway: str, model: Model) -> None:
        """Register the webhooks, and add the schedules."""
        self._timed = timetable(round(time.time() * 1000), self._limit_s, self._tool_ms)
        teach(model, self._timed)
        ends = {"events": list(_ENDS), "session": QUEUE_SESSION}
        async with Api(gateway) as api:
            for hook, asked in (("all", {"events": ["*"]}), ("one", ends)):
                body = {"url": self._receiver.url(hook), "secret": SECRET, **asked}
                await api.post("/v1/webhooks", body, status=201)
            for timed in self._timed:
                await api.post("/v1/schedules", timed.body, status=201)

    async def result(self, gateway: str, redis_url: str, ledger: Ledger, undone: Undone, *, late: bool) -> OutsideCount:
        """Pause the schedules, wait for all runs and deliveries, and return the figures. Nothing goes wrong by now.

        ``late``: whether due times may have been missed.
        """
        begun = time.monotonic()
        self._receiver.calm_down()
        async with Redis.from_url(redis_url) as redis, Api(gateway) as api:
            paused = await _redis_ms(redis)
            for timed in self._timed:
                if (await api.get(f"/v1/schedules/{timed.name}"))["status"] != "ended":
                    await api.post(f"/v1/schedules/{timed.name}/pause", status=200)
            found = [await self._ended(api, timed, paused, ledger) for timed in self._timed]
            held, deliveries = await self._delivered(redis, undone)
        runs = runs_counted(found, held, undone.between, late=late)
        return OutsideCount(deliveries, runs, dict(self._receiver.failures), time.monotonic() - begun)

    async def _ended(self, api: Api, timed: Timed, paused: int, ledger: Ledger) -> TimedRuns:
        """Return what has come of a schedule, once all its runs have ended."""
        runs: list[dict[str, Any]] = []

        async def over() -> bool:
            runs[:] = reversed((await api.get(f"/v1/schedules/{timed.name}/runs?limit=500"))["items"])
            return not any(run["status"] in _OPEN for run in runs)

        await wait_until(f"all runs of schedule {timed.name} to end", over)
        created = milliseconds((await api.get(f"/v1/schedules/{timed.name}"))["created_at"])
        return TimedRuns(timed, created, paused, runs, starts_of(ledger).get(timed.name, {}))

    async def _delivered(self, redis: Redis, undone: Undone) -> tuple[Held, DeliveryCount]:
        """Return the events of all sessions and the figures, once nothing is missing or the time is up."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            held = await held_events(redis)
            found = deliveries_counted(self._receiver.arrivals, held, _wants, _is_erased, undone.sent_at)
            if not found.missing or time.monotonic() > limit:
                return held, found
            await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def outside(seed: int, limit_s: float, tool_ms: int, *, silent: bool) -> AsyncIterator[Outside]:
    """Run the receiver while the block runs. ``silent``: whether it may be silent for longer than gateways wait."""
    async with AsyncExitStack() as stack:
        rng = random.Random(f"outside {seed}")  # of its own, so that a seed means the same faults as without
        receiver = await stack.enter_async_context(unsteady_receiver(rng, _SILENT_S if silent else 0))
        yield Outside(receiver, limit_s, tool_ms)


async def held_events(redis: Redis) -> Held:
    """Return the events of all sessions that webhooks get, each with its cursor; those of erased ones aside."""
    held: dict[str, Sequence[dict[str, Any]]] = {}
    async for key in redis.scan_iter(match="pentad:{*}:events:default:*", count=1000):
        entries: Any = await redis.xrange(key)
        events = [json.loads(fields[b"data"]) | {"id": entry.decode()} for entry, fields in entries]
        kept = [e for e in events if e["type"] not in EPHEMERAL and not _is_erased(e["session_id"])]
        if kept:
            held[kept[0]["session_id"]] = kept
    return held


def _wants(hook: str, event: dict[str, Any]) -> bool:
    return hook == "all" or (event["session_id"] == QUEUE_SESSION and event["type"] in _ENDS)


def _is_erased(session: str) -> bool:
    return session.startswith(ERASED_SESSIONS)


async def _redis_ms(redis: Redis) -> int:
    seconds, microseconds = await redis.time()
    return seconds * 1000 + microseconds // 1000
