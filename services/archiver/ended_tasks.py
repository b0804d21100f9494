"""Ended tasks as an archiver reads them: from Redis, else from their record.

A transcript only grows, and how a message is cut into segments depends on no later message, unless that says that
messages were moved. So what was read last is kept, and the next time only what follows is read and cut.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import ANY_SHARD, milliseconds, shard_in
from pentad.contracts.streams import Stream
from pentad.services.archiver.domain import EndedTask, Message, ended_task_of, ended_task_of_record
from pentad.shared.actors.erased_marks import erased_users, is_erased
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.transcript import EXCLUSION, left_out, shown
from pentad.shared.errors import MemoryRefusedError, PoisonError
from pentad.shared.event_loop import GroupedCalls
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, task_parts
from pentad.shared.memory.extraction import StoredAnswer
from pentad.shared.memory.forgotten import forgotten_of_tasks
from pentad.shared.memory.points import CutTask, cut_further, cut_task, without
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.segments.passages import owned
from pentad.shared.segments.segment import Segment
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry

T = TypeVar("T")


class RecentTasks(Generic[T]):
    """A bounded cache by task; the least recent entries are dropped.

    ``most``: the total weight of all entries.
    """

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._known: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, actor: str) -> T | None:
        """Return what is known of a task; None: nothing."""
        return self._known[actor][0] if actor in self._known else None

    def put(self, actor: str, known: T, weight: int = 1) -> None:
        """Store what is known of a task, unless it weighs more than half of the total."""
        self.pop(actor)
        if 2 * weight <= self._most:
            self._known[actor] = known, weight
            self._weight += weight
        while self._weight > self._most:
            self._weight -= self._known.popitem(last=False)[1][1]

    def pop(self, actor: str) -> T | None:
        """Remove and return what is known of a task."""
        known, weight = self._known.pop(actor, (None, 0))
        self._weight -= weight
        return known


_OVERHEAD_BYTES = 1_000
"""Bytes that a message, or a segment, takes beside its text."""


@immutable
class CachedTranscript:
    """The transcript of a task in Redis as it was read last."""

    last: bytes
    """The last entry; empty when there was none."""
    shown: Sequence[Message]
    messages: Sequence[Message]
    """The messages with the user of each."""
    cut: CutTask
    size: int
    """Bytes of the entries."""

    @property
    def next(self) -> int:
        """Index of the entry to read on from: the last one again, which shows whether it is the same transcript."""
        return max(0, len(self.shown) - 1)

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        return 2 * self.size + _OVERHEAD_BYTES * (len(self.shown) + len(self.cut.segments))

    def continues_in(self, entries: Sequence[bytes]) -> bool:
        """Whether entries from `next` on belong to the same transcript: a server may have lost its last writes."""
        return not self.last or (bool(entries) and entries[0] == self.last)


def read_further(header: TaskHeader, entries: Sequence[bytes], earlier: CachedTranscript | None) -> CachedTranscript:
    """Return the transcript as it is now. ``entries``: from ``earlier.next`` on; without ``earlier``, all."""
    fresh = entries[1:] if earlier is not None and earlier.last else entries
    if earlier is not None and not fresh:
        return earlier
    new = [shown(entry) for entry in fresh]
    there = earlier.shown if earlier is not None else []
    messages = [*there, *new]
    said = owned(messages, header.user)
    size = sum(map(len, fresh)) + (earlier.size if earlier is not None else 0)
    if earlier is None or not _only_adds(earlier, new) or said is not messages:
        cut = cut_task(header.tenant, header.task_id, header.session, said)
    else:
        cut = cut_further(earlier.cut, said, len(there))
    return CachedTranscript(entries[-1] if entries else b"", messages, said, cut, size)


def _only_adds(earlier: CachedTranscript, new: Sequence[Message]) -> bool:
    """Whether new messages leave the existing segments as they are."""
    return earlier.messages is earlier.shown and not any(message.get("role") == EXCLUSION for message in new)


_CACHE_BYTES = 32 << 20
"""Bytes of cached tasks."""
_TASKS_PER_LOOK = 256
"""Tasks whose forgotten parts are asked for at once."""
_CUT_INLINE_BYTES = 16 << 10
"""Bytes of a transcript that is cut in the event loop; a longer one is cut in a thread."""


class EndedTasks:
    """Reads tasks. All methods raise ``OutageError`` and ``MemoryOutageError``, and ``DamagedError`` for unreadable
    data.

    Tasks that were read last are cached, so that only what was added is read and cut.
    """

    def __init__(self, store: Store, records: Records, vectors: Vectors) -> None:
        self._store, self._records, self._vectors = store, records, vectors
        self._last: RecentTasks[ReadTask] = RecentTasks(_CACHE_BYTES)
        self._forgotten = GroupedCalls(self._forgotten_of, _TASKS_PER_LOOK, refusal=MemoryRefusedError)

    def last(self, keys: TaskKeys) -> "ReadTask | None":
        """Return the task as this process read it last, if that is cached: it may have changed since."""
        return self._last.get(keys.actor)

    async def read(self, keys: TaskKeys) -> "ReadTask | None":
        """Return the task as it is now; None when it is neither in Redis nor recorded."""
        last = self._last.get(keys.actor)
        so_far = last.so_far if last is not None else None
        now, header, entries, erased = await self._from_redis(keys, so_far.next if so_far is not None else 0)
        if so_far is not None and not so_far.continues_in(entries):
            so_far = None
            now, header, entries, erased = await self._from_redis(keys, 0)
        if header is None:
            self._last.pop(keys.actor)
            record = await self._records.read(keys.tenant, keys.task)
            if record is None:
                return None
            said = ended_task_of_record(record, await self.forgotten(keys))
            remaining = await self.remaining(keys, said)
            extraction = record.extraction
            return ReadTask(said, remaining, None, now, has_ended=True, is_erased=erased, extraction=extraction)
        if sum(map(len, entries)) < _CUT_INLINE_BYTES:
            so_far = read_further(header, entries, so_far)
        else:
            so_far = await asyncio.to_thread(read_further, header, entries, so_far)
        said = ended_task_of(header, so_far.messages, await self.forgotten(keys))
        remaining = await self.remaining(keys, said, so_far.cut)
        task = ReadTask(said, remaining, so_far, now, has_ended=header.ended, is_erased=erased)
        self._last.put(keys.actor, task, so_far.weight)
        return task

    async def _from_redis(self, keys: TaskKeys, begin: int) -> tuple[int, TaskHeader | None, list[bytes], bool]:
        """Return the time, the header, the entries from ``begin`` on, and whether the task was erased."""
        now, raw_header, log, erased = await self._store.run("ended", [keys.header, keys.log, keys.erased], [begin])
        return now, task_header(keys.tenant, keys.task, pairs(raw_header)), log, bool(erased)

    async def remaining(self, keys: TaskKeys, said: EndedTask, whole: CutTask | None = None) -> "Remaining":
        """Return the task without forgotten segments, and without those of users who were erased since.

        ``whole``: the task in segments, if it is cut already.
        """
        if whole is None:
            whole = await asyncio.to_thread(cut_task, said.tenant, said.task, said.session, said.messages)
        owners = {Owner.of_holder(keys.tenant, segment.holder) for segment in whole.segments}
        users = {owner.user for owner in owners if owner.user is not None}
        marks = await erased_users(self._store, keys.shard, keys.tenant, users)
        # A task that began just behind a mark began while the clock was back (`begin` in `commit.lua`): what was said
        # in it has times of before the mark, and is of later.
        erased = {user: at for user, at in marks.items() if said.created != at + 1}
        lost = {each.id for each in whole.segments if each.id in said.forgotten} if said.forgotten else set()
        if erased:
            lost |= {each.id for each in whole.segments if _said_at(each) <= erased.get(each.holder or "", -1)}
        gone = said.forgotten.union(lost, map(str, left_out(said.messages)))
        return Remaining(without(whole, lost), whole, gone, erased)

    async def forgotten(self, keys: TaskKeys) -> frozenset[str]:
        """Return ids of its segments, and of nodes that rested on it, that are forgotten."""
        return await self._forgotten.call((keys.tenant, keys.task))

    async def _forgotten_of(self, tasks: Sequence[tuple[str, str]]) -> list[frozenset[str]]:
        """Return what is forgotten of each task. ``tasks``: their tenants and ids."""
        of_tenants: dict[str, list[str]] = {}
        for tenant, task in dict.fromkeys(tasks):
            of_tenants.setdefault(tenant, []).append(task)
        found = {
            (tenant, task): forgotten
            for tenant, ids in of_tenants.items()
            for task, forgotten in (await forgotten_of_tasks(self._vectors, tenant, ids)).items()
        }
        return [found[each] for each in tasks]

    async def erased(self, keys: TaskKeys) -> bool:
        """Whether the task was erased: then nothing of it may be stored."""
        return await is_erased(self._store, keys)


@immutable
class Remaining:
    """The rest of a task after forgetting and erasing."""

    task: CutTask
    whole: CutTask
    """The task with all its segments."""
    gone: frozenset[str]
    """Removed parts: ids of segments, indexes of messages that were moved away, and ids of nodes that were forgotten
    with what this task says of them."""
    erased_users: Mapping[str, int]
    """Erased users who have spoken in it, with the times of their erasure, in ms."""

    @property
    def is_reduced(self) -> bool:
        """Whether segments were removed."""
        return len(self.task.segments) < len(self.whole.segments)


@immutable
class ReadTask:
    """A task as it was read."""

    said: EndedTask
    remaining: Remaining
    so_far: CachedTranscript | None
    """Cached transcript; None for an archived task."""
    read_at: int
    """Time of the read, in ms since the epoch."""
    has_ended: bool
    is_erased: bool
    extraction: StoredAnswer | None = None
    """A model's stored answer about an archived task."""

    def is_as(self, earlier: "ReadTask") -> bool:
        """Whether nothing has changed since an earlier read: a transcript only grows."""
        length = len(self.said.messages)
        return length == len(earlier.said.messages) and self.remaining.gone == earlier.remaining.gone


def task_named(entry: Entry, stream: Stream) -> TaskKeys:
    """Return the task of an entry's wake-up. Raises ``PoisonError`` for a name that is no task of this shard."""
    try:
        tenant, task = task_parts(entry.parse(WakeUp).actor)
    except ValueError as error:
        raise PoisonError(str(error)) from None
    shard = shard_in(task, ANY_SHARD)
    if shard is None or entry.stream != stream.key(shard):
        raise PoisonError(f"{task!r} is not a task of this shard")
    return TaskKeys(shard, tenant, task)


def _said_at(segment: Segment) -> int:
    """Return when a segment was said, in ms; 0, older than anything, where that is not known."""
    return milliseconds(segment.anchor.at) if segment.anchor.at else 0
