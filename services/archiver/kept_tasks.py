"""Tasks as they are kept somewhere: in Redis, or as a record. Found whole, whoever has written them."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pentad.contracts.ids import ANY_SHARD, milliseconds, shard_in
from pentad.contracts.records import TaskRecord
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

_KEYS = 1000
"""Keys of the server that are gone past at once."""
_TASKS = 16
"""Tasks in Redis that are told of at once."""
_RECORDS = 100
"""Records that are read at once."""


@immutable
class KeptTask:
    """A task and what was said in it."""

    keys: TaskKeys
    session: str
    user: str
    """Who began it; '' for nobody in particular."""
    created: int
    """In ms; 0 where nobody can tell any more."""
    messages: Sequence[dict[str, Any]]
    """The transcript as a record has it."""
    damaged: bool = False
    """Nobody can read its record: all that is known is its name."""


_OF_HEADER = 2
"""Tenant and task: what a task's other keys have behind these is no header."""
Wanted = Callable[[KeptTask], bool]


class KeptTasks:
    """Reads them. Raises ``OutageError`` while a store is away."""

    def __init__(self, store: Store, records: Records) -> None:
        self._store, self._records = store, records

    async def read(self, keys: TaskKeys) -> KeptTask | None:
        """A task, wherever it is; None when it is nowhere. What cannot be read of it is left out."""
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
        """A tenant's tasks that are wanted, in pieces: those in Redis, then those with a record.

        A task goes from Redis to its record, so none is missed. ``words``: stand in the record of every one that may be
        wanted; with them one that cannot be read is wanted too. ``session``: only tasks of this one are wanted.
        """
        for shard in shards:
            async for piece in self._headers(tenant, shard):
                async for tasks in self._wanted(piece, wanted, session):
                    yield tasks
        names = await self._records.names(tenant)
        for begin in range(0, len(names), _RECORDS):
            records = await self._records.naming(tenant, names[begin : begin + _RECORDS], words)
            kept = [_of_record(tenant, name, record) for name, record in records.items()]
            yield [task for task in kept if task is not None and task.keys.shard in shards and _is(task, wanted)]

    async def _wanted(
        self, piece: Sequence[TaskKeys], wanted: Wanted, session: str | None
    ) -> AsyncIterator[list[KeptTask]]:
        """Few at once: each comes with its transcript."""
        meant: list[KeptTask] = []
        for keys in piece:
            task = await self.read(keys) if await self._may_be_of(keys, session) else None
            if task is not None and wanted(task):
                meant.append(task)
            if len(meant) == _TASKS:
                yield meant
                meant = []
        yield meant

    async def _may_be_of(self, keys: TaskKeys, session: str | None) -> bool:
        """Asked before a transcript is read for nothing."""
        if session is None:
            return True
        named: bytes | None = await self._store.call("HGET", keys.header, "session")
        return named is not None and read_session(named) == session

    async def all_in_redis(self, shards: Sequence[int]) -> list[TaskKeys]:
        """Every task that is in Redis now, whoever's it is, each once."""
        found: set[TaskKeys] = set()
        for shard in shards:
            cursor, begins = b"0", f"{tag(shard)}:task:"
            while True:
                command = ("SCAN", cursor, "MATCH", f"{begins}*", "COUNT", _KEYS, "TYPE", "hash")
                cursor, keys = await self._store.call(*command)
                parts = (key.decode().removeprefix(begins).split(":") for key in keys)
                found |= {TaskKeys(shard, *names) for names in parts if len(names) == _OF_HEADER}
                if cursor == b"0":
                    break
        return sorted(found, key=lambda each: each.actor)

    async def _headers(self, tenant: str, shard: int) -> AsyncIterator[list[TaskKeys]]:
        cursor, begins = b"0", f"{tag(shard)}:task:{tenant}:"
        while True:
            command = ("SCAN", cursor, "MATCH", f"{begins}*", "COUNT", _KEYS, "TYPE", "hash")
            cursor, found = await self._store.call(*command)
            names = {key.decode().removeprefix(begins) for key in found}
            yield [TaskKeys(shard, tenant, name) for name in sorted(names) if ":" not in name]
            if cursor == b"0":
                return


def said_by(task: KeptTask, user: str, until: int) -> list[KeptPoint]:
    """The segments of a task that are this user's, as far as they were said by then (in ms); without their words."""
    keys = task.keys
    cut = cut_task(keys.tenant, keys.task, task.session, owned(task.messages, task.user))
    return [
        KeptPoint(each.id, payload)
        for place, each in enumerate(cut.segments)
        if each.holder == user and (payload := bare_payload(cut, place)).at <= until
    ]


def _is(task: KeptTask, wanted: Wanted) -> bool:
    return task.damaged or wanted(task)


def _in_redis(keys: TaskKeys, header: dict[str, bytes], lines: Sequence[bytes]) -> KeptTask:
    session, user = read_session(header.get("session", b"")), read_text(header.get("user", b""))
    try:
        created = read_integer(header.get("created", b"0"))
    except ValueError:
        created = 0
    return KeptTask(
        keys, session, user, created, [message for line in lines if (message := _message(line)) is not None]
    )


def _message(line: bytes) -> dict[str, Any]:
    """An entry of a transcript; one that cannot be read keeps its place, and says nothing."""
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
    return KeptTask(keys, task.session_id, task.user_id or "", milliseconds(task.created_at), record.messages)


def _damaged(keys: TaskKeys) -> KeptTask:
    log.warning("the record of %s cannot be read: all that is known of it is its name", keys.actor)
    return KeptTask(keys, "", "", 0, [], damaged=True)
