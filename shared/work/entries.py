"""Handling of entries that carry their own work (not wake-ups): beats, counted attempts with backoff, dead letters."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from pentad.shared import metrics
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.event_loop import cancel_all
from pentad.shared.passing_failures import passes
from pentad.shared.store.beats import beat_s, keep_beating
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Done, Entry, reason_of
from pentad.shared.work.handler import MAX_FAILURES, MAX_STARTS, Handler

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_BACKOFF_S = 0.2
_OUTAGE_S = 1.0
"""A store that is down is asked again this often; nothing is counted (hazard 7)."""
_NOT_GIVEN_UP_S = 5.0
"""How long what is never given up waits after its failures, before it goes behind the others."""


class EntryHandler(Handler):
    """Runs a function for each entry, at least once, and sets aside what fails for good."""

    def __init__(self, store: Store, work: Callable[[Entry], Awaitable[None]], max_attempts: int | None) -> None:
        """``max_attempts``: None for work that is never given up: only what nobody can read is set aside."""
        self.store, self._work, self._max_attempts = store, work, max_attempts
        self.consumer: Consumer
        self._held: dict[str, asyncio.Task[Any] | None] = {}
        self._waits: dict[str, str] = {}
        """Why entries that are held are not done yet."""

    @property
    def trouble(self) -> str | None:
        """Why an entry waits for a store, or why no more than one entry at a time is tried."""
        return self.breaker.trouble or next((f"waits: {why}" for why in self._waits.values()), None)

    async def handle(self, entry: Entry) -> Done:
        left = await self.consumer.failures.count(entry, "start") if entry.redelivered else 0
        if left > MAX_STARTS and self._max_attempts is not None:
            await self.consumer.failures.set_aside(entry, f"{MAX_STARTS} starts ended without an outcome", MAX_STARTS)
            return Done.COMMITTED
        self._held[entry.id] = asyncio.current_task()
        try:
            done = await self._attempts(entry)
        finally:
            self._held.pop(entry.id, None)
            self._waits.pop(entry.id, None)
        self.consumer.starts.observe(left + 1)
        return done

    async def _attempts(self, entry: Entry) -> Done:
        counted = entry.redelivered
        while True:
            try:
                await self._work(entry)
            except PoisonError:
                raise
            except Exception as error:
                if isinstance(error, OutageError) or passes(error):
                    self._waits[entry.id] = str(error)
                    _say.warning(entry.stream, "%s %s waits: %s", entry.stream, entry.id, error)
                    await asyncio.sleep(_OUTAGE_S * random.uniform(0.5, 1.0))
                    continue
                counted = True
                if (done := await self._failed(entry, error)) is not None:
                    return done
            else:
                self.breaker.succeeded()
                if counted:
                    self.consumer.failures.forget(entry)
                return Done.ACK

    async def _failed(self, entry: Entry, error: Exception) -> Done | None:
        """Count it, and wait; None: it is to be tried again."""
        metrics.failed.labels(self.consumer.stream.name, self.consumer.kind).inc()
        self.breaker.failed(entry.id, reason_of(error))
        if self.breaker.open:
            await self.hand_back([entry])
            return Done.LEFT
        failed = await self.consumer.failures.count(entry, "fail")
        if self._max_attempts is None:
            self._waits[entry.id] = reason_of(error)
            log.warning("%s %s fails and is tried again (attempt %d)", entry.stream, entry.id, failed, exc_info=error)
            if failed >= MAX_FAILURES:
                await self._let_others_go_first(entry)
                return Done.LEFT
        elif failed >= self._max_attempts:
            await self.consumer.failures.set_aside(entry, reason_of(error), failed)
            return Done.COMMITTED
        await asyncio.sleep(_BACKOFF_S * 2**failed * random.uniform(0.5, 1.0))
        return None

    async def _let_others_go_first(self, entry: Entry) -> None:
        """Move an entry that keeps failing and is never given up behind the others that wait."""
        await asyncio.sleep(_NOT_GIVEN_UP_S * random.uniform(0.5, 1.0))
        await self.hand_back([entry])
        self.consumer.failures.forget(entry)

    async def beat(self) -> None:
        """Keep what is held; stop what another has taken over. To be run for ever beside the consumer."""
        await keep_beating(self.store, f"entries of {self.consumer.key}", beat_s(self.consumer.lease_ms), self._beat)

    async def _beat(self) -> None:
        if not self._held:
            return
        args: list[Argument] = [self.consumer.group, self.consumer.consumer, *self._held]
        for entry_id in await self.store.run("entry_beat", [self.consumer.key], args):
            task = self._held.get(entry_id.decode())
            if task is not None:
                metrics.lease_losses.labels(self.consumer.group).inc()
                task.cancel()

    async def interrupt(self) -> None:
        """Stop what is being handled, so that it can be handed back."""
        await cancel_all([task for task in self._held.values() if task is not None])

    async def hand_back(self, entries: list[Entry]) -> None:
        args: list[Argument] = [self.consumer.group, self.consumer.consumer]
        for entry in entries:
            args += (entry.id, entry.data)
        copies = await self.store.run("entry_release", [self.consumer.key], args)
        metrics.published.labels(self.consumer.stream.name, self.consumer.kind).inc(copies)
