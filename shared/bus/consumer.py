"""A consumer of one work stream: fresh and reclaimed entries behind one handler, with bounded prefetch.

Fresh entries come through FastStream. Entries whose worker fell silent come by XAUTOCLAIM once they have been idle for
the lease. Both wait for a free slot, so what is prefetched is never more than one small batch.
"""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from redis.exceptions import RedisError, ResponseError

from contracts.streams import DEAD, DeadLetter, Stream
from shared import metrics
from shared.bus.broker import Batch, ensure_group, make_broker, subscribe
from shared.bus.entry import Done, Entry, printable, reason_of
from shared.cancelling import cancel_all
from shared.errors import OutageError, PoisonError
from shared.state.keys import DAY_S, attempts
from shared.state.store import Argument, Store, guarded, is_outage

log = logging.getLogger(__name__)

MAX_STARTS = 20
"""Starts without an outcome before an entry is set aside (law 8)."""
MAX_FAILURES = 5
"""Errors that a handler let through before the entry is set aside (law 8)."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
_PREFETCH = 32


class Handler(ABC):
    """What is done with the entries of a stream."""

    @abstractmethod
    async def handle(self, entry: Entry) -> Done:
        """Handle one entry. ``PoisonError`` sets it aside; ``OutageError`` leaves it pending and counts nothing."""

    @abstractmethod
    async def hand_back(self, entries: list[Entry]) -> None:
        """Give back entries that were read but not begun, so that another worker can take them at once."""


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
        slots: int,
        lease_ms: int,
    ) -> None:
        assert stream.group is not None
        self.store, self.stream, self.key, self.shard = store, stream, key, shard
        self.group, self.consumer, self.handler = stream.group, consumer, handler
        self._slots = asyncio.Semaphore(slots)
        self._lease_ms = lease_ms
        self._running: dict[str, asyncio.Task[None]] = {}
        self._acks: list[str] = []
        self._acker: asyncio.Task[None] | None = None
        self._broker = make_broker(store.url)
        self._subscriber: Any = subscribe(self._broker, key, self.group, consumer, min(_PREFETCH, slots), self._fresh)
        self._tasks: list[asyncio.Task[None]] = []
        self._kind = stream.carries[0].__name__
        self._consumed = metrics.consumed.labels(stream.name, self._kind)
        self._seconds = metrics.handler_seconds.labels(self.group, self._kind)
        self._stopping = False
        self._died: str | None = None

    # Life

    async def start(self) -> None:
        """Create the group and begin to read."""
        await guarded(f"group {self.group}", lambda: ensure_group(self.store.redis, self.key, self.group))
        await self._broker.start()
        for loop in (self._reclaim(), self._supervise()):
            self._tasks.append(asyncio.create_task(loop))

    def alive(self) -> bool:
        """False when nothing reads the stream any more and nothing will."""
        return self._died is None and all(not t.done() for t in self._tasks)

    async def stop_reading(self) -> None:
        """Take nothing new. What is being handled goes on."""
        self._stopping = True
        await cancel_all(self._tasks)
        await self._broker.stop()

    async def drain(self) -> None:
        """Wait for what is being handled, then hand back what was read and not begun."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        if self._acker is not None:
            await self._acker
        try:
            await self._hand_back_rest()
        except (OutageError, RedisError, OSError) as error:
            log.warning("could not hand back entries of %s: %s", self.key, error)

    async def _hand_back_rest(self) -> None:
        pending = await self.store.redis.xpending_range(
            self.key, self.group, min="-", max="+", count=1000, consumername=self.consumer
        )
        for found in pending:
            for entry_id, fields in await self.store.redis.xrange(self.key, found["message_id"], found["message_id"]):
                entry = Entry(self.key, entry_id.decode(), fields.get(b"data", b""))
                try:
                    await self.handler.hand_back([entry])
                except PoisonError as error:
                    await self.set_aside(entry, str(error), 1)

    # Reading

    async def _fresh(self, batch: Batch) -> None:
        for entry in batch:
            await self._begin(entry)

    async def _begin(self, entry: Entry) -> None:
        if entry.id in self._running:
            return
        await self._slots.acquire()
        if self._stopping:  # handed back by `drain`
            self._slots.release()
            return
        task = asyncio.create_task(self._run(entry))
        self._running[entry.id] = task
        task.add_done_callback(lambda _: self._end(entry))

    def _end(self, entry: Entry) -> None:
        self._running.pop(entry.id, None)
        self._slots.release()

    async def _reclaim(self) -> None:
        """Take over what silent workers left, every quarter of the lease."""
        pause = min(0.5, self._lease_ms / 4000)
        cursor: Any = "0-0"
        while True:
            try:
                reply = await self.store.call(
                    "XAUTOCLAIM", self.key, self.group, self.consumer, self._lease_ms, cursor, "COUNT", _PREFETCH
                )
                cursor = reply[0]
                for entry_id, fields in reply[1]:
                    data = dict(zip(fields[::2], fields[1::2], strict=True)).get(b"data", b"")
                    metrics.redelivered.labels(self.stream.name).inc()
                    await self._begin(Entry(self.key, entry_id.decode(), data, redelivered=True))
                if cursor != b"0-0":
                    continue
            except OutageError:
                await self._let_owners_beat()
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
            await asyncio.sleep(pause)

    async def _let_owners_beat(self) -> None:
        """In an outage nobody beats: what lives would seem silent. It gets a lease's time from Redis's first answer."""
        await guarded(f"reclaiming in {self.key}", self.store.clock)
        await asyncio.sleep(self._lease_ms / 1000)

    async def _supervise(self) -> None:
        """FastStream ends a subscriber whose group has vanished: create the group again and start it again."""
        while True:
            await asyncio.sleep(0.25)
            if self._subscriber.running:
                continue
            try:
                await ensure_group(self.store.redis, self.key, self.group)
                await self._subscriber.start()
                log.warning("%s: the group %s had vanished and was created again", self.key, self.group)
            except Exception as error:
                if not is_outage(error):
                    self._died = f"{self.key} is not read any more: {error}"
                    raise

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
        begun = perf_counter()
        try:
            if await self.handler.handle(entry) is Done.ACK:
                self._ack(entry.id)
            self._consumed.inc()
            self._seconds.observe(perf_counter() - begun)
        except PoisonError as error:
            await self.set_aside(entry, str(error), 1)
        except Exception as error:
            if isinstance(error, OutageError) or is_outage(error):
                log.warning("%s %s waits: %s", self.key, entry.id, error)
                return False
            await self._failed(entry, error)
        return True

    async def _failed(self, entry: Entry, error: Exception) -> None:
        """The handler knew no way out: the entry is tried again after the lease, and set aside when that goes on."""
        log.exception("%s %s failed", self.key, entry.id, exc_info=error)
        metrics.failed.labels(self.stream.name, self._kind).inc()
        failed = await guarded("failures", partial(self.count, entry, "fail"))
        if failed >= MAX_FAILURES:
            await self.set_aside(entry, reason_of(error), failed)

    def _ack(self, entry_id: str) -> None:
        self._acks.append(entry_id)
        if self._acker is None:
            self._acker = asyncio.create_task(self._send_acks())

    async def _send_acks(self) -> None:
        try:
            while self._acks:
                ids, self._acks = self._acks, []
                await guarded("acknowledge", partial(self.store.call, "XACK", self.key, self.group, *ids))
        finally:
            self._acker = None

    async def set_aside(self, entry: Entry, reason: str, attempts_made: int, chain: list[str] | None = None) -> None:
        """Dead-letter an entry and acknowledge it, at once."""
        letter = await self._letter(entry, reason, attempts_made, chain or [])
        args: list[Argument] = [self.group, entry.id, letter.to_json()]
        keys = [self.key, DEAD.key(self.shard)]
        await guarded("dead letter", lambda: self.store.run("set_aside", keys, args))
        self.forget(entry)
        metrics.dead.labels(self.stream.name, self._kind).inc()
        log.error("%s %s was set aside: %s", self.key, entry.id, reason)

    async def _letter(self, entry: Entry, reason: str, attempts_made: int, chain: list[str]) -> DeadLetter:
        found = await self.store.redis.xrange(self.key, entry.id, entry.id)
        fields = {printable(k): printable(v) for k, v in found[0][1].items()} if found else {}
        now = await self.store.now()
        return DeadLetter(
            stream=self.key,
            entry_id=entry.id,
            reason=reason,
            attempts=attempts_made,
            at=now,
            fields=fields,
            chain=chain,
        )

    async def count(self, entry: Entry, kind: str) -> int:
        """Count a failed attempt (``fail``) or a start without outcome (``start``) of an entry."""
        field = f"{self.key} {entry.id} {kind}"
        counted: int = await self.store.run("entry_count", [attempts(self.shard)], [field, DAY_S])
        return counted

    def forget(self, entry: Entry) -> None:
        """Remove an ended entry's counts: their hash lives as long as anything fails. What this misses goes with it."""
        fields = [f"{self.key} {entry.id} {kind}" for kind in ("fail", "start")]
        self.store.send("HDEL", attempts(self.shard), *fields)
