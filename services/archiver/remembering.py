"""Remembering: the segments of a task that has ended are embedded and written as points, so that searches find them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import LEARN, REMEMBER
from pentad.services.archiver.domain import EndedTask, batches, gone_points
from pentad.services.archiver.ended_tasks import EndedTasks, ReadTask, RecentTasks, task_named
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.shared import metrics
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.event_loop import GroupedCalls, TimeSlices
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN, prepare_forgotten
from pentad.shared.memory.increments import FirstWritten, Unwritten, marked_point, new_points, unwritten
from pentad.shared.memory.points import CutTask, ids_of, part_id, parts_of
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.points import Payload, Point, collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry

_MOST_UNFINISHED = 10_000
"""Tasks whose failure is remembered; dead letters are not handled again, so the number is bounded."""


_REBUILD_CAUSE = "rebuild"
"""Cause of embeddings that no entry has asked for."""


class Remembering:
    """Remembers at least once, and only what is new: a redelivery writes the whole task, and so repairs what a kill
    left.

    A task is read from Redis, else from its record: neither waits for the memory, which may be unavailable for long.
    """

    def __init__(self, store: Store, ended: EndedTasks, vectors: Vectors, embedder: Embedder) -> None:
        self._store, self._vectors, self._ended = store, vectors, ended
        self._memory = ErasedMemory(vectors)
        self._writer = TaskWriter(vectors, embedder, TenantMemories(store))
        self._unfinished: RecentTasks[bool] = RecentTasks(_MOST_UNFINISHED)
        """Tasks whose last handling in this process failed."""

    async def prepare(self, patience_s: float | None = None) -> str:
        """Make the collection of the embedding model, so that it can be searched while it is empty; return its name.

        Raises ``MemoryOutageError`` while the store is unavailable, or the model for ``patience_s`` seconds.
        """
        await prepare_forgotten(self._vectors)
        return await self._writer.prepare(patience_s)

    async def handle(self, entry: Entry) -> None:
        """Remember the task that the entry names, as it is now; again when it went on meanwhile."""
        keys = task_named(entry, REMEMBER)
        whole = entry.redelivered or self._unfinished.get(keys.actor) is not None
        try:
            task = await self._remember(keys, entry.id, whole=whole)
        except BaseException:
            self._unfinished.put(keys.actor, True)
            raise
        self._unfinished.pop(keys.actor)
        if task is not None:
            metrics.remember_seconds.labels().observe(max(0, task.read_at - task.said.ended_at) / 1000)
            await self._ask_to_learn(keys)

    async def rebuild(self, keys: TaskKeys) -> None:
        """Write a task whole, whatever the store has of it. It is not queued to be learned from."""
        await self._remember(keys, _REBUILD_CAUSE, whole=True)

    def begin_rebuild(self) -> None:
        """Drop all cached knowledge of the store, which may be another one."""
        self._writer.forget_collections()

    async def _remember(self, keys: TaskKeys, cause: str, *, whole: bool) -> ReadTask | None:
        """Write a task until it is written as it is now, and return it; None when nothing is to be written.

        A slower writer of an older version of the task writes the newer one after it. ``whole``: an earlier attempt did
        not finish, and may have overwritten newer points.
        """
        written: FirstWritten = {}
        task = await self._ended.read(keys)
        if task is None or not task.has_ended:
            await self._stay_erased(keys, task)
        while task is not None and task.has_ended:
            before, said = task, task.said
            requester = Requester(keys.shard, said.tenant, said.session, task=said.task, cause=cause)
            await self._writer.write(said, before.remaining.task, requester, written, whole=whole)
            task = await self._ended.read(keys)
            await self._stay_erased(keys, task)
            if task is not None and task.has_ended and task.is_as(before):
                return task
        return None

    async def _ask_to_learn(self, keys: TaskKeys) -> None:
        """Queue the task to be learned from. The graph has its own stream, because it may be unavailable for longer."""
        await self._store.call("XADD", LEARN.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
        metrics.published.labels(LEARN.name, WakeUp.__name__).inc()

    async def _stay_erased(self, keys: TaskKeys, task: ReadTask | None) -> None:
        """Remove points of a task, or of users in it, that were erased. ``task``: as it was read after a write."""
        if task.is_erased if task is not None else await self._ended.erased(keys):
            await self._memory.forget_tasks(keys.tenant, [keys.task])
        elif task is not None:
            for user, at in task.remaining.erased_users.items():
                await self._memory.forget_user(keys.tenant, user, at, [keys.task])


_LARGE_SEGMENTS = 64
"""Segments to embed from which on only one such task is in progress: their vectors take some 10 KB each."""
_COMPARE_INLINE_SEGMENTS = 1024
"""Segments of a task that are compared in the event loop, at 1 us each; more in a thread."""
_POINTS_PER_SLICE = 8
"""Points that are made without a pause, at 0.1 ms each."""
_POINTS_PER_WRITE = 64
"""Points that are written at once, of one task or of several: searches wait for as long as that takes."""
_START_REQUESTER = Requester(0, "default", "memory", cause="start")


class TaskWriter:
    """Embeds and writes what the store does not have. All methods raise ``MemoryOutageError`` while the store or the
    model is unavailable."""

    def __init__(self, vectors: Vectors, embedder: Embedder, tenants: TenantMemories) -> None:
        self._vectors, self._embedder, self._tenants = vectors, embedder, tenants
        self._prepared: set[str] = set()
        self._collection: str | None = None
        """Collection of the model that answered last."""
        self._large = asyncio.Lock()
        self._pieces = TimeSlices(_POINTS_PER_SLICE)
        self._stored = GroupedCalls(self._get, MOST_POINTS, weight=_ids_of, refusal=MemoryRefusedError)
        self._written = GroupedCalls(self._upsert, _POINTS_PER_WRITE, weight=_points_of, refusal=MemoryRefusedError)

    async def prepare(self, patience_s: float | None = None) -> str:
        """Make the collection of the embedding model, which can be searched while it is empty; return its name."""
        return (await self._embedded(["a"], _START_REQUESTER, patience_s))[0]

    async def write(
        self, said: EndedTask, task: CutTask, requester: Requester, written: FirstWritten, *, whole: bool
    ) -> None:
        """Write what is new in ``task``, the segments of ``said``, and remove what was moved away.

        ``written``: what was written in this handling; it is updated. ``whole``: write everything, whatever the store
        has.
        """
        try:
            collection = self._collection or await self.prepare()
            kept = {} if whole else await self._kept(collection, task)
            small = len(task.segments) < _COMPARE_INLINE_SEGMENTS
            new = unwritten(task, kept, written) if small else await asyncio.to_thread(unwritten, task, kept, written)
            written |= {each.part.holder: each.first for each in new}
            if sum(len(each.embedded) for each in new) < _LARGE_SEGMENTS:
                await self._write_new(said, task, new, collection, requester)
            else:
                async with self._large:
                    await self._write_new(said, task, new, collection, requester)
        except MemoryRefusedError:
            self.forget_collections()
            raise

    def forget_collections(self) -> None:
        """Make the collection again before the next write: it may be gone."""
        self._prepared.clear()
        self._collection = None

    async def _kept(self, collection: str, task: CutTask) -> dict[str, Payload]:
        """Return the payloads in the store of the points that stand for the task."""
        ids = [part_id(task, part) for part in parts_of(task)]
        found: dict[str, Payload] = {}
        for begin in range(0, len(ids), MOST_POINTS):
            asked = _Asked(collection, task.tenant, tuple(ids[begin : begin + MOST_POINTS]))
            found |= await self._stored.call(asked)
        return found

    async def _get(self, asked: Sequence["_Asked"]) -> list[dict[str, Payload]]:
        """Return the payloads, by id, of points that are in the store: at least those that are asked for."""
        wanted: dict[tuple[str, str], list[str]] = {}
        for each in asked:
            wanted.setdefault((each.collection, each.tenant), []).extend(each.ids)
        found: dict[tuple[str, str], dict[str, Payload]] = {}
        for (collection, tenant), ids in wanted.items():
            chosen = Selection(Owner(tenant), Whose.ALL, ids=tuple(ids))
            found[collection, tenant] = {p.id: p.payload for p in await self._vectors.get(collection, chosen)}
        return [found[each.collection, each.tenant] for each in asked]

    async def _upsert(self, given: Sequence[tuple[str, Sequence[Point]]]) -> list[None]:
        """Write points. ``given``: a collection, and points for it."""
        of_collections: dict[str, list[Point]] = {}
        for collection, points in given:
            of_collections.setdefault(collection, []).extend(points)
        for collection, together in of_collections.items():
            await self._vectors.upsert(collection, together)
        return [None] * len(given)

    async def _write_new(
        self, said: EndedTask, task: CutTask, new: Sequence[Unwritten], collection: str, requester: Requester
    ) -> None:
        """Write the segments, and after them the points that say which segments exist."""
        vectors = await self._vectors_of(task, new, collection, requester)
        await self._remove(said, task)
        if new:
            await self._tenants.writing(said.tenant)
        making, written = _new_points(task, new, vectors), 0
        while points := await self._made(making):
            await self._written.call((collection, points))
            written += len(points)
        metrics.remembered.labels().inc(written - len(new))

    async def _made(self, making: Iterator[Point]) -> list[Point]:
        """Return the next points."""
        points: list[Point] = []
        while len(points) < _POINTS_PER_WRITE and (piece := await self._pieces.next(making)):
            points += piece
        return points

    async def _vectors_of(
        self, task: CutTask, new: Sequence[Unwritten], collection: str, requester: Requester
    ) -> dict[int, list[float]]:
        """Return the vectors of segments by index. Raises ``MemoryOutageError`` when another model made them."""
        places = [place for each in new for place in each.embedded]
        vectors: list[list[float]] = []
        for texts in batches([task.segments[place].text for place in places]):
            answered, more = await self._embedded(texts, requester)
            vectors += more
            if answered != collection:
                raise MemoryOutageError("another embedding model answers now: the task is embedded anew")
        return dict(zip(places, vectors, strict=True))

    async def _remove(self, said: EndedTask, task: CutTask) -> None:
        """Remove the points of what was moved to another task."""
        gone = gone_points(said, ids_of(task))
        there = [each.name for each in await self._vectors.collections() if each.name != FORGOTTEN] if gone else []
        for begin in range(0, len(gone), MOST_POINTS):
            ids = tuple(gone[begin : begin + MOST_POINTS])
            chosen = Selection(Owner(said.tenant), Whose.ALL, tasks=(said.task,), ids=ids)
            for name in there:  # an earlier model's is searched until another one counts
                await self._vectors.delete(name, chosen)

    async def _embedded(
        self, texts: Sequence[str], requester: Requester, patience_s: float | None = None
    ) -> tuple[str, list[list[float]]]:
        """Return vectors, and the collection of their model, which exists by then."""
        try:
            async with asyncio.timeout(patience_s):
                found = await self._embedder.embed(texts, requester)
        except TimeoutError:
            raise MemoryOutageError("the embedding model does not answer yet") from None
        except ModelUnavailable as error:
            raise MemoryOutageError(str(error)) from error
        collection = collection_name(found.model, len(found.vectors[0]))
        if collection not in self._prepared:
            await self._vectors.prepare(collection, len(found.vectors[0]))
            self._prepared.add(collection)
        self._collection = collection
        return collection, found.vectors


@immutable
class _Asked:
    """Points of one task that are asked for."""

    collection: str
    tenant: str
    ids: tuple[str, ...]


def _ids_of(asked: _Asked) -> int:
    return len(asked.ids)


def _points_of(given: tuple[str, Sequence[Point]]) -> int:
    return len(given[1])


def _new_points(task: CutTask, new: Sequence[Unwritten], vectors: Mapping[int, Sequence[float]]) -> Iterator[Point]:
    """Yield points, each made when it is asked for: those that say which segments exist come last."""
    for each in new:
        yield from new_points(task, each, vectors)
    for each in new:
        yield marked_point(task, each)
