"""A task that has ended, as an archiver reads it: from Redis, else from its record."""

import asyncio

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import milliseconds, shard_in
from pentad.contracts.streams import Stream
from pentad.services.archiver.domain import Said, said_in_record, said_in_task
from pentad.shared.actors.erased_marks import erased_users, is_erased
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.errors import PoisonError
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, actor_parts
from pentad.shared.memory.forgotten import forgotten_of
from pentad.shared.memory.points import CutTask, cut_task, without
from pentad.shared.records import Records
from pentad.shared.segments.segmenting import Segment
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry

_ANY = 1 << 30


class EndedTasks:
    """Reads tasks. All raise ``OutageError`` and ``MemoryOutageError``; ``DamagedError`` for what nobody can read."""

    def __init__(self, store: Store, records: Records, vectors: Vectors) -> None:
        self._store, self._records, self._vectors = store, records, vectors

    async def said(self, keys: TaskKeys) -> Said | None:
        """The task, if it has ended: what still goes on is looked at again at its end."""
        raw_header, log = await self._store.run("said", [keys.header, keys.log], [])
        header = task_header(keys.tenant, keys.task, pairs(raw_header))
        if header is not None and not header.ended:
            return None
        record = None if header is not None else await self._records.read(keys.tenant, keys.task)
        forgotten = await self.forgotten(keys)
        if header is not None:
            return said_in_task(header, [shown(raw) for raw in log], forgotten)
        return None if record is None else said_in_record(record, forgotten)

    async def remaining(self, keys: TaskKeys, said: Said) -> "Remaining":
        """The task in pieces, without what was forgotten, and without what a user has said who was erased since."""
        whole = await asyncio.to_thread(cut_task, said.tenant, said.task, said.session, said.messages)
        users = {segment.user for segment in whole.segments if segment.user is not None}
        erased = await erased_users(self._store, keys.shard, keys.tenant, users)
        gone = {each.id for each in whole.segments if _said_at(each) <= erased.get(each.user or "", -1)}
        return Remaining(without(whole, said.forgotten | gone), whole)

    async def forgotten(self, keys: TaskKeys) -> frozenset[str]:
        """Ids of its segments that are not to be found any more."""
        return await forgotten_of(self._vectors, keys.tenant, keys.task)

    async def erased(self, keys: TaskKeys) -> bool:
        """Whether the task was erased: then nothing may be kept of it."""
        return await is_erased(self._store, keys)


@immutable
class Remaining:
    """What is left of a task."""

    task: CutTask
    whole: CutTask
    """What was said in it."""

    @property
    def less(self) -> bool:
        """Whether there was more."""
        return len(self.task.segments) < len(self.whole.segments)


def task_named(entry: Entry, stream: Stream) -> TaskKeys:
    """The task of an entry's wake-up. Raises ``PoisonError`` for what names none of the stream's shard."""
    try:
        tenant, task = actor_parts(entry.parse(WakeUp).actor)
    except ValueError as error:
        raise PoisonError(str(error)) from None
    shard = shard_in(task, _ANY)
    if shard is None or entry.stream != stream.key(shard):
        raise PoisonError(f"{task!r} is not a task of this shard")
    return TaskKeys(shard, tenant, task)


def _said_at(segment: Segment) -> int:
    """In ms; 0 where it is not known: then it is as old as can be."""
    return milliseconds(segment.anchor.at) if segment.anchor.at else 0
