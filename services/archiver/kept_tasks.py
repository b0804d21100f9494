"""Finds whole tasks in Redis and among the records, of all writers."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pentad.contracts.ids import ANY_SHARD, milliseconds, shard_in
from pentad.contracts.records import ForkOrigin, TaskRecord
from pentad.shared.actors.headers import pairs, read_integer, read_session, read_text
from pentad.shared.actors.transcript import shown
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, tag
from pentad.shared.memory.points import bare_payload, cut_task
from pentad.shared.records.record_store import Records
from pentad.shared.segments.passages import owned
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import KeptPoint

log = logging.getLogger(__name__)

_KEYS_PER_SCAN = 1000
"""Keys that one scan of the server passes."""
_TASKS_PER_PAGE = 16
"""Tasks in Redis that are yielded at once."""
_RECORDS_PER_READ = 100
"""Records that are read at once."""


@immutable
class KeptTask:
    """A task and what was said in it."""

    keys: TaskKeys
    session: str
    user: str
    """User who began it; '': nobody in particular."""
    created: int
    """Time of its beginning, in ms; 0 where that is not known any more."""
    messages: Sequence[dict[str, Any]]
    """The transcript as a record has it."""
    fork: ForkOrigin | None = None
    """Origin of a task that is a fork of another."""
    damaged: bool = False
    """Whether its record is unreadable: then only its name is known."""


_HEADER_KEY_PARTS = 2
"""Parts of a header's key: tenant and task. Other keys of a task have more parts."""
Wanted = Callable[[KeptTask], bool]
_FORK_WORDS = '"forked_from":{'
"""Words in the record of every fork."""


class KeptTasks:
    """Reads tasks. Raises ``OutageError`` while a store is unavailable."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records = store, records

    async def are_in_session(self, tenant: str, session: str) -> bool:
        """Return whether tasks of a session are kept in records that lists find."""
        return bool(await self._records.of_session(tenant, session))

    async def read(self, keys: TaskKeys) -> KeptTask | None:
        """Return a task from Redis or its record; None when it is in neither. Unreadable messages are left out."""
        raw_header, lines = await self._store.run("said", [keys.header, keys.log], [])
        header = pairs(raw_header)
        if header:
            return _in_redis(keys, header, lines)
        try:
            record = await self._records.read(keys.tenant, keys.task)
        except DamagedError:
            return _damaged(keys)
        return None if record is None else _recorded(keys, record)

    async def found(
        self, tenant: str, shards: Sequence[int], words: str, wanted: Wanted, session: str | None = None
    ) -> AsyncIterator[list[KeptTask]]:
        """Yield a tenant's tasks that are wanted, in pages: those in Redis, then those with a record.

        A task goes from Redis to its record, so none is missed. ``words`` occur in the record of every task that may be
        wanted; an unreadable record with them is wanted too. ``session``: only tasks of this one are wanted.
        """
        for shard in shards:
            async for piece in self._headers(tenant, shard):
                async for tasks in self._wanted(piece, wanted, session):
                    yield tasks
        names = await self._records.names(tenant)
        for begin in range(0, len(names), _RECORDS_PER_READ):
            records = await self._records.naming(tenant, names[begin : begin + _RECORDS_PER_READ], words)
            kept = [_of_record(tenant, name, record) for name, record in records.items()]
            yield [task for task in kept if task is not None and task.keys.shard in shards and _is_wanted(task, wanted)]

    async def forks(self, tenant: str, shards: Sequence[int], of: Callable[[ForkOrigin], bool]) -> list[KeptTask]:
        """Return a tenant's forks whose origin is wanted, from Redis and from records."""
        found: dict[TaskKeys, KeptTask] = {}
        for shard in shards:
            async for piece in self._headers(tenant, shard):
                for keys in piece:
                    origin = _origin(await self._store.call("HGET", keys.header, "fork"))
                    if origin is not None and of(origin) and (task := await self.read(keys)) is not None:
                        found[keys] = task
        names = await self._records.names(tenant)
        for begin in range(0, len(names), _RECORDS_PER_READ):
            records = await self._records.naming(tenant, names[begin : begin + _RECORDS_PER_READ], _FORK_WORDS)
            kept = [_of_record(tenant, name, record) for name, record in records.items()]
            forks = [task for task in kept if task is not None and task.fork is not None and of(task.fork)]
            found |= {task.keys: task for task in forks if task.keys not in found}
        return [task for task in found.values() if task.keys.shard in shards]

    async def _wanted(
        self, piece: Sequence[TaskKeys], wanted: Wanted, session: str | None
    ) -> AsyncIterator[list[KeptTask]]:
        """Yield wanted tasks in small pages, since each comes with its transcript."""
        meant: list[KeptTask] = []
        for keys in piece:
            task = await self.read(keys) if await self._may_be_of(keys, session) else None
            if task is not None and wanted(task):
                meant.append(task)
            if len(meant) == _TASKS_PER_PAGE:
                yield meant
                meant = []
        yield meant

    async def _may_be_of(self, keys: TaskKeys, session: str | None) -> bool:
        """Whether a task may be of this session; this saves reading transcripts of others."""
        if session is None:
            return True
        named: bytes | None = await self._store.call("HGET", keys.header, "session")
        return named is not None and read_session(named) == session

    async def all_in_redis(self, shards: Sequence[int]) -> list[TaskKeys]:
        """Return every task that is in Redis now, of all owners, each once."""
        found: set[TaskKeys] = set()
        for shard in shards:
            cursor, begins = b"0", f"{tag(shard)}:task:"
            while True:
                command = ("SCAN", cursor, "MATCH", f"{begins}*", "COUNT", _KEYS_PER_SCAN, "TYPE", "hash")
                cursor, keys = await self._store.call(*command)
                parts = (key.decode().removeprefix(begins).split(":") for key in keys)
                found |= {TaskKeys(shard, *names) for names in parts if len(names) == _HEADER_KEY_PARTS}
                if cursor == b"0":
                    break
        return sorted(found, key=lambda each: each.actor)

    async def _headers(self, tenant: str, shard: int) -> AsyncIterator[list[TaskKeys]]:
        cursor, begins = b"0", f"{tag(shard)}:task:{tenant}:"
        while True:
            command = ("SCAN", cursor, "MATCH", f"{begins}*", "COUNT", _KEYS_PER_SCAN, "TYPE", "hash")
            cursor, found = await self._store.call(*command)
            names = {key.decode().removeprefix(begins) for key in found}
            yield [TaskKeys(shard, tenant, name) for name in sorted(names) if ":" not in name]
            if cursor == b"0":
                return


def said_by(task: KeptTask, user: str, until: int) -> list[KeptPoint]:
    """Return the segments of a task that a user had said up to a time (in ms), without their words."""
    keys = task.keys
    cut = cut_task(keys.tenant, keys.task, task.session, owned(task.messages, task.user))
    return [
        KeptPoint(each.id, payload)
        for place, each in enumerate(cut.segments)
        if each.holder == user and (payload := bare_payload(cut, place)).at <= until
    ]


def _is_wanted(task: KeptTask, wanted: Wanted) -> bool:
    return task.damaged or wanted(task)


def _in_redis(keys: TaskKeys, header: dict[str, bytes], lines: Sequence[bytes]) -> KeptTask:
    session, user = read_session(header.get("session", b"")), read_text(header.get("user", b""))
    try:
        created = read_integer(header.get("created", b"0"))
    except ValueError:
        created = 0
    said = [message for line in lines if (message := _message(line)) is not None]
    return KeptTask(keys, session, user, created, said, _origin(header.get("fork")))


def _origin(raw: bytes | None) -> ForkOrigin | None:
    """Return the origin of a fork as its header has it; None for another task, and for one that cannot be read."""
    try:
        return ForkOrigin.model_validate_json(raw) if raw else None
    except ValueError:
        return None


def _message(line: bytes) -> dict[str, Any]:
    """Return an entry of a transcript; an unreadable one keeps its place and is empty."""
    try:
        return shown(line)
    except (ValueError, TypeError):
        return {}


def _of_record(tenant: str, name: str, record: TaskRecord | None) -> KeptTask | None:
    shard = shard_in(name, ANY_SHARD)
    if shard is None:
        return None
    keys = TaskKeys(shard, tenant, name)
    return _damaged(keys) if record is None else _recorded(keys, record)


def _recorded(keys: TaskKeys, record: TaskRecord) -> KeptTask:
    task = record.task
    created = milliseconds(task.created_at)
    return KeptTask(keys, task.session_id, task.user_id or "", created, record.messages, task.forked_from)


def _damaged(keys: TaskKeys) -> KeptTask:
    log.warning("the record of %s cannot be read: all that is known of it is its name", keys.actor)
    return KeptTask(keys, "", "", 0, [], damaged=True)
