"""Tasks are erased everywhere: ended first, then out of Redis, out of memory, and at last their records."""

import asyncio
from collections.abc import Sequence
from time import monotonic

from pentad.contracts.ids import encoded_id
from pentad.contracts.streams import ERASE
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.erased_traces import embedded_texts, remove_events, remove_vectors
from pentad.services.archiver.kept_tasks import KeptTask, KeptTasks
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, count_wake_ups
from pentad.shared.actors.headers import LIVE
from pentad.shared.embedder.embedder import Embedder, HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError
from pentad.shared.keys import ERASED_TTL_S, SessionKeys, TaskKeys, load, places, task_index, task_queue, timers
from pentad.shared.kinds import TIMER_KINDS
from pentad.shared.models.ports import ModelFailed
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Argument, Store

MOST_AT_ONCE = 16
"""Tasks that are erased together."""
_END_S = 10.0
"""How long a task has to end when it is asked to. After that it is removed as it is, and its runner cannot commit."""
_LOOK_S = 0.1


class ErasingTasks:
    """At least once: each step may be repeated. What a task is found by, in Redis or as a record, goes last.

    ``limits``: how many tasks of a session, and of a tenant in one shard, may be active.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        memory: ErasedMemory,
        embedder: Embedder,
        actors: Actors,
        limits: tuple[int, int],
        end_s: float = _END_S,
    ) -> None:
        self._store, self._records, self._memory, self._embedder = store, records, memory, embedder
        self._actors, self._limits, self._end_s = actors, f"{limits[0]} {limits[1]}", end_s
        self._kept = KeptTasks(store, records)

    async def erase(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        """Erase these tasks of a tenant. Raises ``OutageError`` while a store or the embedding service is away."""
        for begin in range(0, len(tasks), MOST_AT_ONCE):
            await self._erase(tenant, tasks[begin : begin + MOST_AT_ONCE])

    async def _erase(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        models, left, give_up = await self._models(tenant, tasks), tasks, monotonic() + self._end_s
        while left:
            await asyncio.gather(*(self._end(task, give_up) for task in left))
            await asyncio.gather(*(self._leave_cache(task, models) for task in left if models))
            await self._leave_events(tenant, left)
            await self._memory.forget_tasks(tenant, [task.keys.task for task in left])
            forced = monotonic() > give_up
            gone = await asyncio.gather(*(self._removed(task.keys, task.session, forced) for task in left))
            left = [task for task, is_gone in zip(left, gone, strict=True) if not is_gone]  # opened again meanwhile
        if monotonic() > give_up:  # what was not to be ended has gone on until now
            await self._leave_events(tenant, tasks)
        for task in tasks:
            await self._records.remove(tenant, task.keys.task)
        metrics.erased.labels().inc(len(tasks))

    async def _models(self, tenant: str, tasks: Sequence[KeptTask]) -> list[str]:
        """Under which models' names vectors may be cached: who hashes keeps none."""
        if not tasks or isinstance(self._embedder, HashingEmbedder):
            return []
        try:
            requester = Requester(tasks[0].keys.shard, tenant, tasks[0].session or "memory", cause="erase")
            return [(await self._embedder.embed(["a"], requester)).model]
        except ModelFailed as error:
            raise MemoryOutageError(f"which vectors are cached is not known: {error}") from error

    async def _end(self, task: KeptTask, give_up: float) -> None:
        """Mark a task, and wait until it has ended; after a while it is taken as it is."""
        keys = task.keys
        args: list[Argument] = ["0-0", "", ERASED_TTL_S, "", encoded_id(task.session), keys.tenant]
        await self._store.run("erase_mark", [keys.erased, ERASE.key(keys.shard), keys.wake], args)
        while await self._actors.post(keys, "cancel", b"{}", LIVE, control="cancel") in LIVE:
            if monotonic() > give_up:
                return
            await asyncio.sleep(_LOOK_S)

    async def _leave_cache(self, task: KeptTask, models: Sequence[str]) -> None:
        """Also of what it has said since it was found, to its end."""
        keys = task.keys
        said = (await self._kept.read(keys) or task).messages
        texts = await asyncio.to_thread(embedded_texts, keys.tenant, keys.task, said)
        session = SessionKeys(keys.shard, keys.tenant, task.session)
        await remove_vectors(self._store, session, keys.task, models, texts)

    async def _leave_events(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        for shard, session in sorted({(task.keys.shard, task.session) for task in tasks if task.session}):
            here = {task.keys.task for task in tasks if task.session == session}
            await remove_events(self._store, SessionKeys(shard, tenant, session), here)

    async def _removed(self, keys: TaskKeys, session: str, forced: bool) -> bool:
        owner = SessionKeys(keys.shard, keys.tenant, session)
        names = [keys.erased, timers(keys.shard), load(keys.shard), places(keys.shard)]
        names += [task_queue(keys.shard, keys.tenant), keys.wake, task_index(keys.shard, keys.tenant)]
        names += [owner.header, owner.turns, *keys.all()]
        args: list[Argument] = [ERASED_TTL_S, "1" if forced else "", keys.task, keys.tenant, owner.name, self._limits]
        gone, woken = await self._store.run("erase_task", names, [*args, *sorted(TIMER_KINDS)])
        count_wake_ups(keys.stream, woken)
        return bool(gone)
