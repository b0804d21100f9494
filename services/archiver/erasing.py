"""A task, a session or an end user is erased everywhere, as its mark says: all that was there by then."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from pydantic_core import to_json

from pentad.contracts.commands import EraseCommand
from pentad.contracts.ids import ANY_SHARD, shard_in
from pentad.contracts.streams import INBOUND, queues_of, split_key
from pentad.services.archiver.domain import share_of
from pentad.services.archiver.erased_letters import remove_letters
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.erased_traces import remove_events
from pentad.services.archiver.erased_waiting import remove_waiting
from pentad.services.archiver.erasing_tasks import ErasingTasks
from pentad.services.archiver.kept_tasks import KeptTask, KeptTasks, said_by
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.errors import PoisonError
from pentad.shared.keys import SessionKeys, TaskKeys, erased_user, session_index
from pentad.shared.memory.forgotten import noted_segments
from pentad.shared.memory.forgotten_notes import hand_over
from pentad.shared.memory.statements import is_statement
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.tenant_turns import TenantTurns

_AT_ONCE = 2
"""Erasures under way for each shard. Of others that were read the next is another tenant's, where there is one."""


class Erasing:
    """At least once: whatever a kill leaves, a redelivery finds again and removes. Tenants take turns."""

    def __init__(
        self, store: Store, kept: KeptTasks, tasks: ErasingTasks, memory: ErasedMemory, shards: Sequence[int]
    ) -> None:
        self._store, self._kept, self._tasks, self._memory = store, kept, tasks, memory
        self._shards = shards
        self._turns = TenantTurns(_AT_ONCE * len(shards), _AT_ONCE * len(shards))

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
        await self._tasks.erase(command.tenant_id, [task])
        await self._clean(command, [shard], mark.at)

    async def _session(self, command: EraseCommand, shard: int) -> None:
        keys = SessionKeys(shard, command.tenant_id, command.name)
        mark = await mark_at(self._store, keys.erased)
        if mark is None:
            return
        until = mark.at

        def goes(task: KeptTask) -> bool:
            """Statements name a session of their own, which anybody may use as well."""
            ours = task.session == keys.session and not is_statement(task.keys.task)
            return ours and task.created <= until

        while await self._found(command, [shard], "session_id", goes):
            pass  # a task that was being moved to has begun meanwhile
        await remove_events(self._store, keys, (), until)
        await self._memory.forget_session(command.tenant_id, command.name, until)
        await self._clean(command, [shard], until)

    async def _user(self, command: EraseCommand) -> None:
        tenant, user = command.tenant_id, command.name
        until: dict[int, int] = {}
        for shard in self._shards:
            if mark := await mark_at(self._store, erased_user(shard, tenant, user)):
                until[shard] = mark.at
                await remove_waiting(self._store, shard, tenant, user, mark)

        def goes(task: KeptTask) -> bool:
            by_then = task.created <= until[task.keys.shard]
            return by_then and share_of(task.messages, task.user, user) == "whole"

        shards, last = sorted(until), max(until.values(), default=0)
        while shards and await self._found(command, shards, "user_id", goes):
            pass
        await self._note_parts(command, until)
        await self._memory.forget_user(tenant, user, last)
        await self._clean(command, shards, last)

    async def _note_parts(self, command: EraseCommand, until: Mapping[int, int]) -> None:
        """What the user has said in tasks that stay is noted beside their records: marks end, and records are read
        again when the memory is rebuilt."""
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
        """Erase the tasks that are wanted; returns how many there were."""
        erased = 0
        words = f'"{field}":{to_json(command.name).decode()}'
        session = command.name if command.kind == "session" else None
        async for tasks in self._kept.found(command.tenant_id, shards, words, wanted, session):
            await self._tasks.erase(command.tenant_id, tasks)
            await self._leave_empty_sessions(command.tenant_id, tasks)
            erased += len(tasks)
        return erased

    async def _leave_empty_sessions(self, tenant: str, tasks: Sequence[KeptTask]) -> None:
        """A session in which nothing is left is not listed any more."""
        for shard, session in sorted({(task.keys.shard, task.session) for task in tasks if task.session}):
            keys = SessionKeys(shard, tenant, session)
            names = [keys.header, keys.messages, keys.signals, keys.turns, session_index(shard, tenant)]
            await self._store.run("erase_idle", names, [keys.name])

    async def _clean(self, command: EraseCommand, shards: Sequence[int], until: int) -> None:
        """What lies in streams: dead letters, and work that was done and is not cut yet."""
        await remove_letters(self._store, command, shards, until)
        queues = [key for shard in shards for _, key in queues_of(shard, ("default",))]
        for key in (INBOUND.key(), *queues):
            await self._store.run("trim", [key], ["="])
