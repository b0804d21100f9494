"""Durable timers: what is due becomes mail. Every task-runner runs this loop; the removal decides who fires."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from redis.exceptions import ResponseError

from pentad.contracts.streams import ARCHIVE, REMEMBER, TASK_WAKE, Stream
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys, task_parts, timers
from pentad.shared.seldom import Seldom
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)
_say = Seldom(log)

_ARCHIVER: Mapping[str, Stream] = {"archive": ARCHIVE, "remember": REMEMBER}
"""What wakes the archiver, by the timer's kind."""
_BATCH = 100
_LONGEST_S = 0.25


class TimerLoop:
    """Fires the due timers of some shards."""

    def __init__(self, store: Store, shards: Sequence[int]) -> None:
        self._store, self._shards = store, shards

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
                await asyncio.sleep(_LONGEST_S)

    async def fire(self, shard: int) -> int:
        """Fire what is due now in one shard; returns how many were found."""
        now = await self._store.clock()
        due = await self._store.call("ZRANGEBYSCORE", timers(shard), "-inf", now, "LIMIT", 0, _BATCH)
        for member in due:
            kind, _, actor = member.decode(errors="replace").partition(" ")
            try:
                keys = TaskKeys(shard, *task_parts(actor))
            except ValueError as error:
                log.error("%r is removed from the timers, which nobody can read: %s", member[:300], error)
                await self._store.call("ZREM", timers(shard), member)
                continue
            names = [timers(shard), keys.header, keys.signals, keys.wake, ARCHIVE.key(shard), REMEMBER.key(shard)]
            fired, woken = await self._store.run("fire", names, [member, kind, actor])
            stream = _ARCHIVER.get(kind, TASK_WAKE)
            count_wake_ups(stream, woken)
            if fired and stream is TASK_WAKE:
                metrics.published.labels(TASK_WAKE.name, kind).inc()
        return len(due)
