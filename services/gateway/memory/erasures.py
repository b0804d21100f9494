"""Erasure of a task, a session or a user: it is marked at once, so that no older data comes back.

An archiver removes the data. A repeated request erases again, with the data that has come since.
"""

import asyncio

from pentad.contracts.commands import EraseCommand
from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import EXTERNAL_ID_RULE, encoded_id, is_external_id
from pentad.contracts.streams import ERASE, INBOUND, TASK_WAKE
from pentad.services.gateway.edge.problems import doubtful, invalid, missing
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.errors import DamagedError, OutageError, RefusedWriteError
from pentad.shared.keys import (
    ERASED_TTL_S,
    INBOUND_LEASE,
    SessionKeys,
    TaskKeys,
    bell,
    erased_user,
    load,
    session_index,
)
from pentad.shared.schedules.schedule_store import ScheduleStore
from pentad.shared.store.store import Argument, Store
from pentad.shared.workspace.workspace import Workspaces

_TICK_S = 0.002
"""Pause after a mark: data that comes later is later in whole milliseconds, too, and stays."""


class Erasures:
    """Starts erasures. Raises ``ProblemError``: 404 if unknown, 503 in doubt; ``OutageError``: nothing was begun."""

    def __init__(
        self,
        store: Store,
        queries: Queries,
        memories: Memories,
        shards: int,
        workspaces: Workspaces | None = None,
    ) -> None:
        self._workspaces = workspaces
        self._store, self._queries, self._memories, self._shards = store, queries, memories, shards
        self._schedules = ScheduleStore(store)

    async def task(self, tenant: str, task: str) -> dict[str, str]:
        """Erase a task, and return its ids."""
        keys = self._queries.task_keys(tenant, task)
        session = None if keys is None else await self._session_of(keys)
        if keys is None or session is None:
            raise missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
        command = EraseCommand(kind="task", tenant_id=tenant, name=task)
        names = [keys.erased, ERASE.key(keys.shard), keys.wake, bell(keys.shard)]
        await self._begin(names, command, tenant, encoded_id(session))
        return {"task_id": task} | ({"session_id": session} if session else {})

    async def _session_of(self, keys: TaskKeys) -> str | None:
        """Return the session of a task, even of an erased one; '' if it is unknown; None if there is no such task."""
        try:
            session = await self._queries.session_of(keys.tenant, keys.task)
        except DamagedError:
            return ""
        if session is None and (mark := await mark_at(self._store, keys.erased)) is not None:
            return mark.session
        return session

    async def session(self, keys: SessionKeys) -> dict[str, str]:
        """Erase a session with all of its tasks, and return its id. Its next message begins a new one."""
        if not await self._is_known(keys):
            raise missing("there is no such session")
        command = EraseCommand(kind="session", tenant_id=keys.tenant, name=keys.session)
        names = [keys.erased, ERASE.key(keys.shard), TASK_WAKE.key(keys.shard), bell(keys.shard)]
        names += [keys.header, keys.messages, keys.signals, keys.turns]
        names += [load(keys.shard), session_index(keys.shard, keys.tenant), keys.events]
        await self._begin(names, command, keys.tenant, keys.name)
        return {"session_id": keys.session}

    async def _is_known(self, keys: SessionKeys) -> bool:
        """Return whether a session exists; of one without recent messages only the memories are left."""
        if await self._store.call("EXISTS", keys.header, keys.erased):
            return True
        if any(kept.spec.session_id == keys.session for kept in await self._schedules.of_tenant(keys.tenant)):
            return True
        if self._workspaces is not None and await self._workspaces.open(keys.tenant, keys.session).list():
            return True
        return await self._memories.knows_session(keys.tenant, keys.session)

    async def user(self, tenant: str, user: str) -> dict[str, str]:
        """Erase all data of a user of this tenant, and return the user's id."""
        if not is_external_id(user):
            raise invalid(f"a user id has {EXTERNAL_ID_RULE}")
        command = EraseCommand(kind="user", tenant_id=tenant, name=user)
        for shard in reversed(range(self._shards)):  # the first gets the command, after all are marked
            names = [erased_user(shard, tenant, user), ERASE.key(shard), TASK_WAKE.key(shard), bell(shard)]
            await self._begin(names, None if shard else command, tenant)
        return {"user_id": user}

    async def _begin(self, names: list[str], command: EraseCommand | None, tenant: str, session: str = "") -> None:
        """Set the mark, and send the command to an archiver. Safe to repeat."""
        _, newest = await self._store.run("last_id", [INBOUND.key()], [])
        generation = await self._store.call("HGET", INBOUND_LEASE, "generation") or b""
        told = b"" if command is None else command.to_json()
        args: list[Argument] = [newest, generation, ERASED_TTL_S, told, session, tenant]
        try:
            await persist(lambda: self._store.run("erase_mark", names, args))
        except RefusedWriteError:
            raise
        except OutageError:
            raise doubtful("Redis did not answer, so it may be erased or not: ask again") from None
        await asyncio.sleep(_TICK_S)
        if command is not None:
            metrics.published.labels(ERASE.name, EraseCommand.__name__).inc()
