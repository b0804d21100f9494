"""Erases a task, a session or an end user everywhere: all that existed at the time of its mark.

A task is ended first, then removed from Redis, from the memory, and at last its record.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import assert_never

from pydantic_core import to_json

from pentad.contracts.commands import EraseCommand
from pentad.contracts.ids import ANY_SHARD, encoded_id, shard_in
from pentad.contracts.records import ForkOrigin
from pentad.contracts.streams import ERASE, INBOUND, queues_of, split_key
from pentad.services.archiver.domain import share_of
from pentad.services.archiver.erased_deliveries import remove_session_deliveries, remove_task_deliveries
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.erased_traces import (
    embedded_texts,
    remove_dead_letters,
    remove_events,
    remove_vectors,
    remove_waiting_messages,
)
from pentad.services.archiver.kept_tasks import KeptTask, KeptTasks, said_by
from pentad.services.archiver.session_files import ErasedFiles
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, count_wake_ups
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.actors.headers import LIVE
from pentad.shared.actors.transcript import started_tasks
from pentad.shared.embedder.embedder import Embedder, HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError, PoisonError
from pentad.shared.keys import (
    ERASED_TTL_S,
    SessionKeys,
    TaskKeys,
    bell,
    erased_user,
    load,
    places,
    session_index,
    task_index,
    task_queue,
    timers,
)
from pentad.shared.kinds import TIMER_KINDS
from pentad.shared.memory.forgotten import noted_segments
from pentad.shared.memory.forgotten_notes import hand_over
from pentad.shared.memory.statements import is_statement
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.schedules.schedule_store import ScheduleStore
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.tenant_turns import TenantTurns

NO_FILES = ErasedFiles(None)
"""The files of sessions where no place for them is set."""
TASKS_PER_BATCH = 16
"""Tasks that are erased together."""
_END_TIMEOUT_S = 10.0
"""Seconds in which a task must end when asked to. After that it is removed as it is, and its runner cannot commit."""
_POLL_S = 0.1


class TaskEraser:
    """Erases tasks, at least once: each step may be repeated. The keys and the record by which a task is found go last.

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
        end_s: float = _END_TIMEOUT_S,
        files: ErasedFiles = NO_FILES,
    ) -> None:
        self._store, self._records, self._memory, self._embedder = store, records, memory, embedder
        self._actors, self._limits, self._end_s = actors, f"{limits[0]} {limits[1]}", end_s
        self._kept, self._files = KeptTasks(store, records), files

    async def erase(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        """Erase these tasks of a tenant. Raises ``OutageError`` while a store or the embedder is unavailable."""
        for begin in range(0, len(tasks), TASKS_PER_BATCH):
            await self._erase(tenant, tasks[begin : begin + TASKS_PER_BATCH])

    async def end(self, task: KeptTask) -> None:
        """Cancel a task, with the tasks that it has started, and wait until it has ended; not for ever."""
        await self._end(task, monotonic() + self._end_s)

    async def _erase(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        models, left, give_up = await self._models(tenant, tasks), tasks, monotonic() + self._end_s
        while left:
            await asyncio.gather(*(self._end(task, give_up) for task in left))
            await asyncio.gather(*(self._remove_cached_vectors(task, models) for task in left if models))
            await self._remove_events(tenant, left)
            for task in left:
                await remove_task_deliveries(self._store, task.keys, task.session, task.messages)
            await self._memory.forget_tasks(tenant, [task.keys.task for task in left])
            forced = monotonic() > give_up
            gone = await asyncio.gather(*(self._removed(task.keys, task.session, forced) for task in left))
            left = [task for task, is_gone in zip(left, gone, strict=True) if not is_gone]  # opened again meanwhile
        if monotonic() > give_up:  # what was not to be ended has gone on until now
            await self._remove_events(tenant, tasks)
        for task in tasks:
            await self._files.of_calls(tenant, task.session, task.messages)
            await self._records.remove(tenant, task.keys.task)
        metrics.erased.labels().inc(len(tasks))

    async def _models(self, tenant: str, tasks: Sequence[KeptTask]) -> list[str]:
        """Return the names of models under which vectors may be cached: hashed vectors are not cached."""
        if not tasks or isinstance(self._embedder, HashingEmbedder):
            return []
        try:
            requester = Requester(tasks[0].keys.shard, tenant, tasks[0].session or "memory", cause="erase")
            return [(await self._embedder.embed(["a"], requester)).model]
        except ModelFailed as error:
            raise MemoryOutageError(f"which vectors are cached is not known: {error}") from error

    async def _end(self, task: KeptTask, give_up: float) -> None:
        """Mark a task, and wait until it has ended; after a while it is erased as it is."""
        keys = task.keys
        args: list[Argument] = ["0-0", "", ERASED_TTL_S, "", encoded_id(task.session), keys.tenant]
        names = [keys.erased, ERASE.key(keys.shard), keys.wake, bell(keys.shard)]
        await self._store.run("erase_mark", names, args)
        while await self._actors.post(keys, "cancel", b"{}", LIVE, control="cancel") in LIVE:
            if monotonic() > give_up:
                return
            await asyncio.sleep(_POLL_S)

    async def _remove_cached_vectors(self, task: KeptTask, models: Sequence[str]) -> None:
        """Remove cached vectors, also of what was said since the task was found."""
        keys = task.keys
        said = (await self._kept.read(keys) or task).messages
        texts = await asyncio.to_thread(embedded_texts, keys.tenant, keys.task, said)
        session = SessionKeys(keys.shard, keys.tenant, task.session)
        await remove_vectors(self._store, session, keys.task, models, texts)

    async def _remove_events(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
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


def _from(names: Collection[str]) -> Callable[[ForkOrigin], bool]:
    """Return the rule that wants the forks of these tasks."""
    return lambda origin: origin.task_id in names


_ERASURES_PER_SHARD = 2
"""Erasures that run at once for each shard; after one, another tenant has its turn, where one waits."""


class Erasing:
    """Erases at least once: what a kill leaves is found and removed at redelivery. Tenants take turns."""

    def __init__(
        self,
        store: Store,
        kept: KeptTasks,
        tasks: TaskEraser,
        memory: ErasedMemory,
        shards: Sequence[int],
        files: ErasedFiles = NO_FILES,
        scripts: ScriptStore | None = None,
        secrets: SecretStore | None = None,
    ) -> None:
        self._store, self._kept, self._tasks, self._memory = store, kept, tasks, memory
        self._shards, self._files, self._scripts, self._secrets = shards, files, scripts, secrets
        self._schedules = ScheduleStore(store)
        self._turns = TenantTurns(_ERASURES_PER_SHARD * len(shards), _ERASURES_PER_SHARD * len(shards))

    async def handle(self, entry: Entry) -> None:
        """Erase what the entry names."""
        command, place = entry.parse(EraseCommand), split_key(entry.stream)
        async with self._turns.turn(command.tenant_id):
            await self._erase(command, place)

    async def _erase(self, command: EraseCommand, place: tuple[int, str] | None) -> None:
        shard = place[0] if place else 0
        if command.kind == "task":
            await self._task(command, shard)
        elif command.kind == "session":
            await self._session(command, shard)
        elif command.kind == "user":
            await self._user(command)
        else:
            assert_never(command.kind)

    async def _task(self, command: EraseCommand, shard: int) -> None:
        if shard_in(command.name, ANY_SHARD) != shard:
            raise PoisonError(f"{command.name!r} is not a task of this shard")
        keys = TaskKeys(shard, command.tenant_id, command.name)
        mark = await mark_at(self._store, keys.erased)
        if mark is None:
            return
        task = await self._kept.read(keys)
        if task is None or not task.session:
            task = KeptTask(keys, mark.session, "", 0, task.messages if task else [])
        await self._tasks.end(task)  # from now on it starts no more tasks
        for started in reversed(await self._started(keys)):
            await self._tasks.erase(command.tenant_id, [started])
        await self._forks_of(command.tenant_id, lambda origin: origin.task_id == command.name)
        await self._tasks.erase(command.tenant_id, [task])
        await self._clean(command, [shard], mark.at)

    async def _forks_of(self, tenant: str, of: Callable[[ForkOrigin], bool]) -> None:
        """Erase the forks whose origin is wanted, with theirs: each has words of what is erased."""
        found = await self._kept.forks(tenant, self._shards, of)
        while found:
            names = {fork.keys.task for fork in found}
            for fork in found:
                await self._tasks.end(fork)  # from now on it starts no more tasks
                for started in reversed(await self._started(fork.keys)):
                    await self._tasks.erase(tenant, [started])
            forks_of_these = await self._kept.forks(tenant, self._shards, _from(names))
            await self._tasks.erase(tenant, found)
            await self._unlist_empty_sessions(tenant, found)
            found = forks_of_these

    async def _started(self, keys: TaskKeys) -> list[KeptTask]:
        """Return the tasks that a task has started, and those that these have, each before its own."""
        found: list[KeptTask] = []
        waiting = [keys]
        while waiting:
            task = await self._kept.read(waiting.pop())
            if task is None:
                continue
            if task.keys != keys:
                found.append(task)
            waiting += [TaskKeys(keys.shard, keys.tenant, name) for name in started_tasks(task.messages)]
        return found

    async def _session(self, command: EraseCommand, shard: int) -> None:
        keys = SessionKeys(shard, command.tenant_id, command.name)
        mark = await mark_at(self._store, keys.erased)
        if mark is None:
            return
        until = mark.at
        await self._schedules.remove_of(command.tenant_id, until, session=command.name)

        def goes(task: KeptTask) -> bool:
            """Statements have a session of their own, whose name anybody may use as well."""
            ours = task.session == keys.session and not is_statement(task.keys.task)
            return ours and task.created <= until

        while await self._found(command, [shard], "session_id", goes):
            pass  # a task that was being moved to has begun meanwhile
        await self._forks_of(command.tenant_id, lambda origin: origin.session_id == keys.session)
        await remove_events(self._store, keys, (), until)
        await remove_session_deliveries(self._store, keys, until)
        await self._memory.forget_session(command.tenant_id, command.name, until)
        await self._remove_scripts(Owner(command.tenant_id, None, command.name), until)
        await self._files.of_session(command.tenant_id, command.name)
        await self._clean(command, [shard], until)

    async def _user(self, command: EraseCommand) -> None:
        tenant, user = command.tenant_id, command.name
        until: dict[int, int] = {}
        for shard in self._shards:
            if mark := await mark_at(self._store, erased_user(shard, tenant, user)):
                until[shard] = mark.at
                await remove_waiting_messages(self._store, shard, tenant, user, mark)

        def goes(task: KeptTask) -> bool:
            by_then = task.created <= until[task.keys.shard]
            return by_then and share_of(task.messages, task.user, user) == "whole"

        shards, last = sorted(until), max(until.values(), default=0)
        await self._schedules.remove_of(tenant, last, user=user)
        while shards and await self._found(command, shards, "user_id", goes):
            pass
        await self._note_parts(command, until)
        await self._memory.forget_user(tenant, user, last)
        await self._remove_scripts(Owner(tenant, user), last)
        if self._secrets is not None:
            await self._secrets.remove_all(SecretOwner(tenant, user), last)
        await self._clean(command, shards, last)

    async def _remove_scripts(self, owner: Owner, until: int) -> None:
        """Remove the scripts of a user or a session that were kept by then: who saves one later reads the mark."""
        if self._scripts is not None:
            await self._scripts.remove_all(owner, until)

    async def _note_parts(self, command: EraseCommand, until: Mapping[int, int]) -> None:
        """Note a user's segments in tasks that stay beside their records.

        Marks expire, and records are read again when the memory is rebuilt.
        """
        tenant, user = command.tenant_id, command.name

        def stays(task: KeptTask) -> bool:
            return not task.damaged and share_of(task.messages, task.user, user) == "part"

        words = f'"user_id":{to_json(user).decode()}'
        async for tasks in self._kept.found(tenant, sorted(until), words, stays):
            for task in tasks:
                if task.damaged:
                    continue
                said = await asyncio.to_thread(said_by, task, user, until[task.keys.shard])
                await hand_over(self._store, noted_segments(said))

    async def _found(
        self, command: EraseCommand, shards: Sequence[int], field: str, wanted: Callable[[KeptTask], bool]
    ) -> int:
        """Erase the tasks that are wanted; return how many there were."""
        erased = 0
        words = f'"{field}":{to_json(command.name).decode()}'
        session = command.name if command.kind == "session" else None
        async for tasks in self._kept.found(command.tenant_id, shards, words, wanted, session):
            await self._tasks.erase(command.tenant_id, tasks)
            for session in await self._unlist_empty_sessions(command.tenant_id, tasks):
                if command.kind == "user" and not await self._kept.are_in_session(command.tenant_id, session):
                    await self._files.of_session(command.tenant_id, session)
            erased += len(tasks)
        return erased

    async def _unlist_empty_sessions(self, tenant: str, tasks: Sequence[KeptTask]) -> list[str]:
        """Unlist sessions in which nothing is left, and return them; of their tasks there may be records."""
        empty = []
        for shard, session in sorted({(task.keys.shard, task.session) for task in tasks if task.session}):
            keys = SessionKeys(shard, tenant, session)
            names = [keys.header, keys.messages, keys.signals, keys.turns, session_index(shard, tenant)]
            if await self._store.run("erase_idle", names, [keys.name]):
                empty.append(session)
        return empty

    async def _clean(self, command: EraseCommand, shards: Sequence[int], until: int) -> None:
        """Remove dead letters, and entries of finished work that were not trimmed yet."""
        await remove_dead_letters(self._store, command, shards, until)
        queues = [key for shard in shards for _, key in queues_of(shard, ("default",))]
        for key in (INBOUND.key(), *queues):
            await self._store.run("trim", [key], ["="])
