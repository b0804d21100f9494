"""What is new in a task that has ended becomes points of the long-term memory."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from pentad.services.archiver.domain import EndedTask, batches, gone_points
from pentad.shared import metrics
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.memory.increments import FirstWritten, Unwritten, marked_point, new_points, unwritten
from pentad.shared.memory.points import CutTask, ids_of, part_id, parts_of
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.owners import Owner
from pentad.shared.time_slices import TimeSlices
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.naming import collection_name
from pentad.shared.vectors.points import Payload, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_LARGE = 256
"""Segments to embed from which on only one such task is in work: the vectors of each take some 10 KB until written."""
_SMALL = 1024
"""Segments of a task of which it is seen at once what is new, at 1 us each; of a larger one in a thread."""
_PIECE = 8
"""Points that are made at once, at 0.1 ms each."""
_TOGETHER = 64
"""Points that are written at once."""
_AT_START = Requester(0, "default", "memory", cause="start")


class TaskWriter:
    """Embeds and writes what the store has not yet. All raise ``MemoryOutageError`` while the store is away, or no
    vector is to be had."""

    def __init__(self, vectors: Vectors, embedder: Embedder, tenants: TenantMemories) -> None:
        self._vectors, self._embedder, self._tenants = vectors, embedder, tenants
        self._prepared: set[str] = set()
        self._collection: str | None = None
        """Of the model that answered last."""
        self._large = asyncio.Lock()
        self._pieces = TimeSlices(_PIECE)

    async def prepare(self) -> str:
        """Make the collection of the embedding model, which can be searched while it is empty; returns its name."""
        return (await self._embedded(["a"], _AT_START))[0]

    async def write(
        self, said: EndedTask, task: CutTask, requester: Requester, written: FirstWritten, *, whole: bool
    ) -> None:
        """Write what is new in ``task``, which is ``said`` in pieces, and remove what was moved away.

        ``written``: what was written in this handling; it is added to. ``whole``: whatever the store has.
        """
        try:
            collection = self._collection or await self.prepare()
            kept = {} if whole else await self._kept(collection, task)
            small = len(task.segments) < _SMALL
            new = unwritten(task, kept, written) if small else await asyncio.to_thread(unwritten, task, kept, written)
            written |= {each.part.holder: each.first for each in new}
            if sum(len(each.embedded) for each in new) < _LARGE:
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
        """What the store has of the points that stand for the task."""
        ids, owner = [part_id(task, part) for part in parts_of(task)], Owner(task.tenant)
        found: dict[str, Payload] = {}
        for begin in range(0, len(ids), MOST_POINTS):
            asked = Selection(owner, Whose.ALL, ids=tuple(ids[begin : begin + MOST_POINTS]))
            found |= {point.id: point.payload for point in await self._vectors.get(collection, asked)}
        return found

    async def _write_new(
        self, said: EndedTask, task: CutTask, new: Sequence[Unwritten], collection: str, requester: Requester
    ) -> None:
        """The segments, and behind them what says that they are there."""
        vectors = await self._vectors_of(task, new, collection, requester)
        await self._remove(said, task)
        if new:
            await self._tenants.writing(said.tenant)
        making, written = _points(task, new, vectors), 0
        while points := await self._made(making):
            await self._vectors.upsert(collection, points)
            written += len(points)
        metrics.remembered.labels().inc(written - len(new))

    async def _made(self, making: Iterator[Point]) -> list[Point]:
        """The next points."""
        points: list[Point] = []
        while len(points) < _TOGETHER and (piece := await self._pieces.next(making)):
            points += piece
        return points

    async def _vectors_of(
        self, task: CutTask, new: Sequence[Unwritten], collection: str, requester: Requester
    ) -> dict[int, list[float]]:
        """By the place of the segment. Raises ``MemoryOutageError`` when they are of another model than asked for."""
        places = [place for each in new for place in each.embedded]
        vectors: list[list[float]] = []
        for texts in batches([task.segments[place].text for place in places]):
            answered, more = await self._embedded(texts, requester)
            vectors += more
            if answered != collection:
                raise MemoryOutageError("another embedding model answers now: the task is embedded anew")
        return dict(zip(places, vectors, strict=True))

    async def _remove(self, said: EndedTask, task: CutTask) -> None:
        """What was moved to another task is not found here any more."""
        gone = gone_points(said, ids_of(task))
        there = [each.name for each in await self._vectors.collections() if each.name != FORGOTTEN] if gone else []
        for begin in range(0, len(gone), MOST_POINTS):
            ids = tuple(gone[begin : begin + MOST_POINTS])
            chosen = Selection(Owner(said.tenant), Whose.ALL, tasks=(said.task,), ids=ids)
            for name in there:  # an earlier model's is searched until another one counts
                await self._vectors.delete(name, chosen)

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
        self._collection = collection
        return collection, found.vectors


def _points(task: CutTask, new: Sequence[Unwritten], vectors: Mapping[int, Sequence[float]]) -> Iterator[Point]:
    """Each made when it is asked for: what says that the segments are there comes behind all of them."""
    for each in new:
        yield from new_points(task, each, vectors)
    for each in new:
        yield marked_point(task, each)
