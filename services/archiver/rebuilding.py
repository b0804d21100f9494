"""Rebuilds the memory from the records and the tasks in Redis, page by page, so that any archiver may continue.

Each task is written whole, by the handlers of tasks that have just ended, whatever the stores have of it. Entries of
the work streams are handled at the same time.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from pentad.contracts.ids import ANY_SHARD, shard_in
from pentad.services.archiver.damage import DamagedParts
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.services.archiver.rebuilding_tasks import RebuildingTasks, Rebuilt
from pentad.shared import metrics
from pentad.shared.errors import MemoryDamagedError, MemoryOutageError, MemoryRefusedError, OutageError, PentadError
from pentad.shared.keys import TaskKeys, task_parts
from pentad.shared.memory.forgotten_notes import export_notes, restore_notes, write_handed_over
from pentad.shared.memory.rebuild_progress import LEASE_S, MOST_FAILURES, RebuildProgress, Rebuilds, RebuildStage
from pentad.shared.models.ports import ModelFailed
from pentad.shared.random_hex import random_hex
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.vectors.vector_store import Vectors

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_TASKS_PER_PAGE = 16
"""Tasks after which the progress is stored: a kill repeats at most these."""
_TASKS_AT_ONCE = 4
"""Tasks that are written at once; tasks that have just ended get more of the time."""
_POLL_S = 1.0
"""Seconds between checks whether a rebuild is asked for."""
_LONGEST_PAUSE_S = 15.0
"""Seconds between attempts while a store is unavailable, at most."""
_STAGES = tuple(RebuildStage)


class Rebuilding:
    """Runs rebuilds. The stores must be open. ``ended`` is awaited when a rebuild has gone through all tasks."""

    def __init__(
        self,
        store: Store,
        records: Records,
        vectors: Vectors,
        tasks: RebuildingTasks,
        aside: DamagedParts,
        shards: Sequence[int],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._store, self._records, self._vectors, self._tasks, self._aside = store, records, vectors, tasks, aside
        self._shards, self._ended = shards, ended
        self._rebuilds, self._kept = Rebuilds(store), KeptTasks(store, records)
        self._who = random_hex(16)
        self._begun = ""
        """Id of the last rebuild that this process has taken part in."""
        self._actors: tuple[str, RebuildStage, list[str]] | None = None
        """The tasks of a stage of a rebuild, in order."""

    async def run(self) -> None:
        """Run rebuilds for ever."""
        pause_s = _POLL_S
        while True:
            try:
                went_on = await self.step()
                pause_s = _POLL_S
            except (OutageError, ModelFailed) as error:
                _say.warning("away", "the rebuild of the memory waits: %s", error)
                with suppress(OutageError):
                    await self._wait_for(str(error))
                went_on, pause_s = False, min(2 * pause_s, _LONGEST_PAUSE_S)
            if not went_on:
                await asyncio.sleep(pause_s)

    async def step(self) -> bool:
        """Write a page; whether there was something to do here. Raises ``OutageError``, ``ModelFailed``."""
        now = await self._rebuilds.read()
        if now is None or now.has_ended or not await self._rebuilds.claim(self._who):
            return False
        beating = asyncio.create_task(self._beat())
        try:
            if self._begun != now.id:
                now = await self._readable(now)
                self._begun, self._actors = now.id, None
                self._tasks.begin()
            return await self._go_on(now)
        except MemoryDamagedError:  # it may be damaged since it was read: it is read anew
            self._begun = ""
            raise
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def stop(self) -> None:
        """Release the rebuild, so that another archiver continues at once."""
        with suppress(OutageError):
            await self._rebuilds.leave(self._who)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            with suppress(OutageError):
                await self._rebuilds.claim(self._who)

    async def _wait_for(self, what: str) -> None:
        now = await self._rebuilds.read()
        if now is not None and not now.has_ended:
            await self._rebuilds.keep(replace(now, waits_for=what), self._who)

    async def _readable(self, now: RebuildProgress) -> RebuildProgress:
        """Set aside what cannot be read of the stores; then everything must be written from the start.

        The progress is stored before that: an archiver that continues after a kill must not believe that anything is
        written.
        """
        found = await self._aside.unreadable()
        if found:
            now = now.from_the_start()
            if not await self._rebuilds.keep(now, self._who):
                raise MemoryOutageError("another archiver goes on with the rebuild")
            await self._aside.set_aside(found)
        return now

    async def _go_on(self, now: RebuildProgress) -> bool:
        if now.stage is RebuildStage.FORGOTTEN and not now.cursor:
            await write_handed_over(self._store, self._records)
            await export_notes(self._store, self._records, self._vectors)
            now = replace(now, total=len(await self._kept.all_in_redis(self._shards)) + len(await self._recorded()))
        actors = await self._of_stage(now)
        begin = bisect_right(actors, now.cursor)
        page = actors[begin : begin + _TASKS_PER_PAGE]
        if page:
            after = await self._done(now, page)
        else:
            after = replace(now, stage=_STAGES[_STAGES.index(now.stage) + 1], cursor="", waits_for="")
        if after.has_ended:
            after = replace(after, ended_at=await self._store.clock())
            await self._ended()
        kept = await self._rebuilds.keep(after, self._who)
        if kept and after.has_ended:
            log.info("the memory is rebuilt: %d tasks, %d failed", after.done, after.failed)
        return kept

    async def _of_stage(self, now: RebuildProgress) -> list[str]:
        """Return the tasks of a stage, read once: tasks that end or are archived later are remembered as usual."""
        if self._actors is None or self._actors[:2] != (now.id, now.stage):
            self._actors = now.id, now.stage, sorted(await self._listed(now.stage))
        return self._actors[2]

    async def _listed(self, stage: RebuildStage) -> list[str]:
        if stage is RebuildStage.FORGOTTEN:
            tenants = await self._records.tenants()
            return [f"{each}/{task}" for each in tenants for task in await self._records.forgotten_tasks(each)]
        if stage is RebuildStage.LIVE:
            return [keys.actor for keys in await self._kept.all_in_redis(self._shards)]
        if stage is RebuildStage.RECORDS:
            return await self._recorded()
        return await self._rebuilds.later()

    async def _recorded(self) -> list[str]:
        """Return all recorded tasks. Tenants are read from the records, since no key lists them."""
        tenants = await self._records.tenants()
        return [f"{tenant}/{task}" for tenant in tenants for task in await self._records.names(tenant)]

    async def _done(self, now: RebuildProgress, page: Sequence[str]) -> RebuildProgress:
        """Write a page of tasks and return the progress after it."""
        places = asyncio.Semaphore(_TASKS_AT_ONCE)

        async def one(actor: str) -> str:
            async with places:
                return await self._one(now.stage, actor)

        ended = await asyncio.gather(*(one(actor) for actor in page), return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):  # the page is begun again
                raise each
        outcomes = [str(each) for each in ended]
        counted = now.stage in (RebuildStage.LIVE, RebuildStage.RECORDS)
        failed = [f"{actor}: {why}" for actor, why in zip(page, outcomes, strict=True) if why not in tuple(Rebuilt)]
        for outcome in outcomes if counted else ():
            metrics.rebuilt.labels(outcome if outcome in tuple(Rebuilt) else "failed").inc()
        done = now.done + (len(page) if counted else 0)
        return replace(
            now,
            cursor=page[-1],
            done=done,
            total=max(now.total, done),
            failed=now.failed + len(failed),
            left_out=now.left_out + outcomes.count(Rebuilt.LEFT_OUT),
            failures="\n".join([*now.failures.splitlines(), *failed][:MOST_FAILURES]),
            waits_for="",
        )

    async def _one(self, stage: RebuildStage, actor: str) -> str:
        """Write one task; return a `Rebuilt`, or why it failed. Raises ``OutageError``, ``ModelFailed``."""
        tenant, task = task_parts(actor)
        shard = shard_in(task, ANY_SHARD)
        if shard is None:
            return "it is not the name of a task"
        keys = TaskKeys(shard, tenant, task)
        work = {
            RebuildStage.FORGOTTEN: self._put_back,
            RebuildStage.LIVE: self._tasks.said,
            RebuildStage.RECORDS: self._tasks.recorded,
        }.get(stage, self._tasks.linked)
        try:
            try:
                return await work(keys)
            except MemoryRefusedError:  # a collection was gone, and is made anew now
                return await work(keys)
        except (OutageError, ModelFailed):
            raise
        except (PentadError, ValueError, KeyError, TypeError) as error:
            log.warning("the memory of %s cannot be rebuilt: %s", actor, error)
            return " ".join(f"{error}".split()) or type(error).__name__

    async def _put_back(self, keys: TaskKeys) -> Rebuilt:
        await restore_notes(self._records, self._vectors, keys.tenant, keys.task)
        return Rebuilt.DONE
