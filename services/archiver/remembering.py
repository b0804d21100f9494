"""What was said in a task that has ended can be found from now on: its segments are embedded and written as points."""

import asyncio
from collections.abc import Sequence

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import shard_in
from pentad.contracts.streams import REMEMBER
from pentad.services.archiver.domain import Said, batches, gone_points, said_in_record, said_in_task
from pentad.shared import metrics
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.requester import Requester
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, PoisonError
from pentad.shared.keys import TaskKeys, actor_parts
from pentad.shared.memory.points import CutTask, cut_task, points_of, texts_of
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.owners import Owner
from pentad.shared.records import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.naming import collection_name
from pentad.shared.vectors.points import Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry

_ANY = 1 << 30
_LARGE = 256
"""Segments of a task from which on only one such is in work: the vectors of each take some 10 KB until written."""
_AT_START = Requester(0, "default", "memory", cause="start")


class Remembering:
    """At least once: points that are written again replace themselves, so a redelivery repairs what a kill left.

    A task is read from Redis, else from its record: neither waits for the memory, which may be away for long.
    """

    def __init__(self, store: Store, records: Records, vectors: Vectors, embedder: Embedder) -> None:
        self._store, self._records, self._vectors, self._embedder = store, records, vectors, embedder
        self._prepared: set[str] = set()
        self._large = asyncio.Lock()

    async def prepare(self) -> None:
        """Make the collection of the embedding model, so that it can be searched while it is empty.

        Raises ``MemoryOutageError`` while the model or the store is away.
        """
        await self._collection()

    async def handle(self, entry: Entry) -> None:
        """Remember the task that the entry names, as it is now; again when it went on meanwhile."""
        try:
            tenant, task = actor_parts(entry.parse(WakeUp).actor)
        except ValueError as error:
            raise PoisonError(str(error)) from None
        shard = shard_in(task, _ANY)
        if shard is None or entry.stream != REMEMBER.key(shard):
            raise PoisonError(f"{task!r} is not a task of this shard")
        keys = TaskKeys(shard, tenant, task)
        said = await self._said(keys)
        while said is not None:
            written, said = said, await self._written(said, shard, entry.id, keys)
            if said is not None and len(said.messages) == len(written.messages):
                late_ms = max(0, await self._store.clock() - written.ended_at)
                metrics.remember_seconds.labels().observe(late_ms / 1000)
                return

    async def _said(self, keys: TaskKeys) -> Said | None:
        """The task, if it has ended: what still goes on is remembered at its end."""
        raw_header, log = await self._store.run("said", [keys.header, keys.log], [])
        header = task_header(keys.tenant, keys.task, pairs(raw_header))
        if header is not None:
            return said_in_task(header, [shown(raw) for raw in log]) if header.ended else None
        record = await self._records.read(keys.tenant, keys.task)
        return None if record is None else said_in_record(record)

    async def _written(self, said: Said, shard: int, cause: str, keys: TaskKeys) -> Said | None:
        """Write it; returns the task as it is then. A slower writer of an older one writes the newer one behind it."""
        task = await asyncio.to_thread(cut_task, said.tenant, said.task, said.session, said.messages)
        requester = Requester(shard, said.tenant, said.session, task=said.task, cause=cause)
        try:
            if len(task.segments) < _LARGE:
                await self._write(said, task, requester)
            else:
                async with self._large:
                    await self._write(said, task, requester)
        except MemoryRefusedError:
            self._prepared.clear()  # the collection may be gone
            raise
        metrics.remembered.labels().inc(len(task.segments))
        return await self._said(keys)

    async def _write(self, said: Said, task: CutTask, requester: Requester) -> None:
        vectors: list[list[float]] = []
        collections: set[str] = set()
        for texts in batches(texts_of(task)):
            collection, more = await self._embedded(texts, requester)
            collections.add(collection)
            vectors += more
        if len(collections) > 1:
            raise MemoryOutageError("another embedding model answered in between: the task is embedded anew")
        collection = collections.pop() if collections else await self._collection()
        points = await asyncio.to_thread(points_of, task, vectors)
        for begin in range(0, len(points), MOST_POINTS):
            await self._vectors.upsert(collection, points[begin : begin + MOST_POINTS])
        await self._remove(said, points, collection)

    async def _remove(self, said: Said, points: Sequence[Point], collection: str) -> None:
        """What was moved to another task is not found here any more."""
        gone = gone_points(said, points)
        for begin in range(0, len(gone), MOST_POINTS):
            ids = tuple(gone[begin : begin + MOST_POINTS])
            await self._vectors.delete(
                collection, Selection(Owner(said.tenant), Whose.ALL, tasks=(said.task,), ids=ids)
            )

    async def _collection(self) -> str:
        return (await self._embedded(["a"], _AT_START))[0]

    async def _embedded(self, texts: Sequence[str], requester: Requester) -> tuple[str, list[list[float]]]:
        """Vectors, and the collection of their model, which is there."""
        try:
            found = await self._embedder.embed(texts, requester)
        except ModelUnavailable as error:
            raise MemoryOutageError(str(error)) from error
        collection = collection_name(found.model, len(found.vectors[0]))
        if collection not in self._prepared:
            await self._vectors.prepare(collection, len(found.vectors[0]))
            self._prepared.add(collection)
        return collection, found.vectors
