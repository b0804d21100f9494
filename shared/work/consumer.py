"""A consumer of one work stream: fresh and reclaimed entries behind one handler, each begun when it is read.

Fresh entries come through FastStream. Entries whose worker fell silent come by XAUTOCLAIM once they have been idle for
the lease. No more of either is asked for than there are free slots (`shared/work/intake.py`).
"""

import asyncio
import logging
import random
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from pentad.contracts.streams import Stream
from pentad.shared import metrics
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.event_loop import cancel_all
from pentad.shared.passing_failures import passes
from pentad.shared.store.beats import write_before_stop
from pentad.shared.store.refusals import is_outage
from pentad.shared.store.store import Store, guarded
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.broker import Batch, ensure_group, make_broker, subscribe
from pentad.shared.work.dead_letters import Failures
from pentad.shared.work.entry import Done, Entry, data_of, reason_of
from pentad.shared.work.handler import MAX_FAILURES, Handler
from pentad.shared.work.intake import Intake, Slots

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5


class Consumer:
    """Reads one stream of one shard for one handler."""

    def __init__(
        self,
        store: Store,
        stream: Stream,
        key: str,
        shard: int,
        consumer: str,
        handler: Handler,
        slots: int | Slots,
        lease_ms: int,
        gather_s: float = 0.0,
    ) -> None:
        """``slots``: how many entries are handled at once here, or the places for those of several consumers.

        ``gather_s``: seconds for which entries are left in the stream after others were read, to be handled together.
        """
        assert stream.group is not None
        self.store, self.stream, self.key, self.shard = store, stream, key, shard
        self.group, self.consumer, self.handler = stream.group, consumer, handler
        self.lease_ms = lease_ms
        self._slots = Slots(slots) if isinstance(slots, int) else slots
        self._running: dict[str, asyncio.Task[None]] = {}
        self._acks: dict[int, list[str]] = {}
        """Entries to be acknowledged, by the connection on which they were handled."""
        self._acker: asyncio.Task[None] | None = None
        where = (key, self.group, consumer)
        self.intake = Intake(store, where, self._slots, lease_ms, self._begin, handler.breaker, gather_s)
        self._broker = make_broker(store, self.intake)
        self._subscriber: Any = subscribe(self._broker, key, self.group, consumer, self._fresh)
        self._tasks: list[asyncio.Task[None]] = []
        self.kind = stream.carries[0].__name__
        self.starts = metrics.attempts.labels(stream.name)
        """Counts the starts that entries needed; the handler observes it."""
        self._consumed = metrics.consumed.labels(stream.name, self.kind)
        self._redelivered = metrics.redelivered.labels(stream.name)
        self._seconds = metrics.handler_seconds.labels(self.group, self.kind)
        self.failures = Failures(store, stream, key, shard, handler)
        self._stopping = False

    # Life

    async def start(self) -> None:
        """Create the group and begin to read."""
        await guarded(f"group {self.group}", ensure_group, self.store, self.key, self.group)
        await self._broker.start()
        self._tasks.append(asyncio.create_task(self._supervise()))

    def alive(self) -> bool:
        """Whether the stream is still read."""
        return all(not t.done() for t in self._tasks)

    @property
    def under_way(self) -> int:
        """Entries that are being handled."""
        return len(self._running)

    @property
    def trouble(self) -> str | None:
        """The reason why entries are not handled; None while all is well."""
        found = self.handler.trouble
        return f"{self.key}: {found}" if found else None

    async def stop_reading(self) -> None:
        """Take nothing new. What is being handled goes on."""
        self._stopping = True
        await cancel_all(self._tasks)
        await self._broker.stop()

    async def drain(self) -> None:
        """Wait for what is being handled, then hand back what was read and not begun; in an outage, give both up."""
        if not self._tasks:  # never started: its group may not be there
            return
        if not await write_before_stop(self.store, self.key, self._leave()):
            await cancel_all([*self._running.values(), *([self._acker] if self._acker else [])])

    async def _leave(self) -> None:
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        if self._acker is not None:
            await self._acker
        pending = await self.store.call("XPENDING", self.key, self.group, "-", "+", 1000, self.consumer)
        for entry_id, *_ in pending:
            for _, fields in await self.store.call("XRANGE", self.key, entry_id, entry_id):
                entry = Entry(self.key, entry_id.decode(), data_of(fields))
                try:
                    await self.handler.hand_back([entry])
                except PoisonError as error:
                    await self.failures.set_aside(entry, str(error), 1)

    # Reading

    async def _fresh(self, batch: Batch) -> None:
        for entry in batch:
            if self._begin(entry):
                self.intake.spend()
        self.intake.give_back()

    def _begin(self, entry: Entry) -> bool:
        """Handle an entry in a place taken for it. False: it is not begun; what comes at a stop `drain` hands back."""
        if self._stopping or entry.id in self._running:
            return False
        if entry.redelivered:
            self._redelivered.inc()
            line = "%s: entry %s is taken over from a worker that fell silent"
            _say.warning(f"taken over {self.key}", line, self.key, entry.id, level=logging.INFO)
        task = asyncio.create_task(self._run(entry))
        self._running[entry.id] = task
        task.add_done_callback(lambda _: self._end(entry))
        return True

    def _end(self, entry: Entry) -> None:
        self._running.pop(entry.id, None)
        self._slots.give(1)

    async def _supervise(self) -> None:
        """FastStream ends a subscriber whose group has vanished: create the group again and start it again."""
        while True:
            await asyncio.sleep(0.25)
            if self._subscriber.running:
                continue
            try:
                await ensure_group(self.store, self.key, self.group)
                await self._subscriber.start()
                log.warning("%s: the group %s had vanished and was created again", self.key, self.group)
            except Exception as error:
                self.store.stumbled(f"reading {self.key} again", error)

    # Handling

    async def _run(self, entry: Entry) -> None:
        """Handle an entry; after an outage again as soon as Redis answers: it is still ours, and nothing is counted."""
        pause = _FIRST_PAUSE_S
        while not await self._once(entry):
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # a Redis that is full answers, and refuses again
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            await guarded(self.key, self.store.clock)
            entry = replace(entry, redelivered=True)
            if self._stopping:
                return

    async def _once(self, entry: Entry) -> bool:
        begun, connection = perf_counter(), self.store.connection
        try:
            done = await self.handler.handle(entry)
            if done is Done.ACK:
                self._ack(entry.id, connection)
            if done is not Done.LEFT:
                self._seconds.observe(perf_counter() - begun)
        except PoisonError as error:
            await self.failures.set_aside(entry, str(error), 1)
        except Exception as error:
            if isinstance(error, OutageError) or is_outage(error) or passes(error):
                _say.warning(self.key, "%s %s waits: %s", self.key, entry.id, error)
                return False
            await self._failed(entry, error)
        return True

    async def _failed(self, entry: Entry, error: Exception) -> None:
        """The handler knew no way out: the entry is tried again after the lease, and set aside when that goes on."""
        log.exception("%s %s failed", self.key, entry.id, exc_info=error)
        metrics.failed.labels(self.stream.name, self.kind).inc()
        failed = await guarded("failures", partial(self.failures.count, entry, "fail"))
        if failed >= MAX_FAILURES:
            await self.failures.set_aside(entry, reason_of(error), failed)

    def _ack(self, entry_id: str, connection: int) -> None:
        self._acks.setdefault(connection, []).append(entry_id)
        if self._acker is None:
            self._acker = asyncio.create_task(self._send_acks())

    async def _send_acks(self) -> None:
        """Acknowledge together what can be. What was done over another connection may be unknown to a server that has
        lost its last writes: it is left pending, reclaimed, and done again."""
        try:
            while self._acks:
                acks, self._acks = self._acks, {}
                for connection, ids in acks.items():
                    try:
                        self._consumed.inc(await self.store.call("XACK", self.key, self.group, *ids, on=connection))
                    except OutageError as error:
                        log.warning("%s: %d entries are done again: %s", self.key, len(ids), error)
        finally:
            self._acker = None
