"""Durable timers: what is due becomes mail. Every task-runner runs this loop; the removal decides who fires.

A timer that was set at a time in the future was set before the server's clock stepped back: it is set anew, and is due
at most its whole length from now.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import cast

from redis.exceptions import ResponseError

from pentad.contracts.streams import ARCHIVE, REMEMBER, TASK_WAKE, Stream
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys, task_parts, timers, timers_set
from pentad.shared.kinds import TimerKind
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_ARCHIVER: Mapping[str, Stream] = {"archive": ARCHIVE, "remember": REMEMBER}
"""The streams that wake the archiver, by the timer's kind."""
_COUNTS_FROM: Mapping[TimerKind, str] = {
    "timeout": "asked_at",
    "retry": "retry_since",
    "wait": "waiting_at",
    "stale": "updated",
    "archive": "ended_at",
}
"""The field of a task's header that holds the time from which a timer counts, by the timer's kind."""
_BATCH = 100
_IDLE_S = 0.25
"""Seconds until the next look for due timers after one that found none."""
_MAX_CLOCK_LEAD_MS = 1_000
"""Milliseconds. A timer that was set from further in the future was set before the clock stepped back."""
_LOOK_AHEAD_S = 1.0
"""Seconds between two looks for such timers."""


class TimerLoop:
    """Fires the due timers of some shards."""

    def __init__(self, store: Store, shards: Sequence[int]) -> None:
        self._store, self._shards = store, shards
        self._look_ahead_at = dict.fromkeys(shards, float("-inf"))

    async def run(self) -> None:
        """Fire for ever. An outage of Redis is waited for; nothing is lost, only late."""
        while True:
            try:
                fired = sum([await self.fire(shard) for shard in self._shards])
            except OutageError as error:
                _say.warning("wait", "timers wait: %s", error)
                fired = 0
            except ResponseError as error:
                self._store.stumbled("timers", error)
                fired = 0
            if not fired:
                await asyncio.sleep(_IDLE_S)

    async def fire(self, shard: int) -> int:
        """Fire what is due now in one shard; returns how many were found."""
        now = await self._store.clock()
        passed = asyncio.get_running_loop().time()
        if passed >= self._look_ahead_at[shard]:
            await self._restart_those_ahead(shard, now)
            self._look_ahead_at[shard] = passed + _LOOK_AHEAD_S
        due = await self._store.call("ZRANGEBYSCORE", timers(shard), "-inf", now, "LIMIT", 0, _BATCH)
        for member in due:
            kind, keys = await self._read(shard, member)
            if keys is None:
                continue
            names = [timers(shard), keys.header, keys.signals, keys.wake, ARCHIVE.key(shard), REMEMBER.key(shard)]
            fired, woken = await self._store.run("fire", names, [member, kind, keys.actor])
            stream = _ARCHIVER.get(kind, TASK_WAKE)
            count_wake_ups(stream, woken)
            if fired and stream is TASK_WAKE:
                metrics.published.labels(TASK_WAKE.name, kind).inc()
        return len(due)

    async def _restart_those_ahead(self, shard: int, now: int) -> None:
        """Begin timers anew that were set before the server's clock stepped back."""
        restarted, found = 0, True
        while found:
            first = f"({now + _MAX_CLOCK_LEAD_MS}"
            found = await self._store.call("ZRANGEBYSCORE", timers_set(shard), first, "+inf", "LIMIT", 0, _BATCH)
            for member in found:
                kind, keys = await self._read(shard, member)
                if keys is not None:
                    args: list[Argument] = [member, _COUNTS_FROM.get(kind, ""), _MAX_CLOCK_LEAD_MS]
                    restarted += await self._store.run("restart_timer", [timers(shard), keys.header], args)
        if restarted:
            log.warning("the clock of Redis has stepped back: %d timers begin anew", restarted)

    async def _read(self, shard: int, member: bytes) -> tuple[TimerKind, TaskKeys | None]:
        """A timer's kind and the task that it belongs to. One that cannot be read is removed."""
        kind, _, actor = member.decode(errors="replace").partition(" ")
        try:
            return cast(TimerKind, kind), TaskKeys(shard, *task_parts(actor))
        except ValueError as error:
            log.error("%r is removed from the timers, which nobody can read: %s", member[:300], error)
            await self._store.call("ZREM", timers(shard), member)
            await self._store.call("ZREM", timers_set(shard), member)
            return cast(TimerKind, kind), None
