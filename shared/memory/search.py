"""Searching long-term memory: what an owner's question finds among what was said in finished tasks."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from pentad.contracts.memories import MemoryStats
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.immutable import immutable
from pentad.shared.memory.current_collection import CurrentVectors
from pentad.shared.memory.points import FIRST_OF_TASK, NODE_KIND, SEGMENT_KIND, TASK_KIND
from pentad.shared.memory.ranking import (
    MOST_FOUND,
    EmbeddedQuestion,
    FactsCache,
    MemoryHit,
    MemoryQuestion,
    RankingVectors,
    question_of,
    ranked_memories,
)
from pentad.shared.owners import Owner
from pentad.shared.vectors.payload_cache import MAX_DECODED
from pentad.shared.vectors.points import Hit, collection_name
from pentad.shared.vectors.selection import Selection, VectorQuery, Whose
from pentad.shared.vectors.vector_store import Vectors

T = TypeVar("T")

_PROBE_TEXT = "memory"
"""A text that is embedded only to learn the model's name."""


class MemorySearch:
    """Searches one store. Questions are embedded by any model; the collection is that of the model that answered.

    All methods raise ``MemoryOutageError`` and ``ModelFailed`` while the store or the model is unavailable.
    """

    def __init__(self, vectors: Vectors, embedder: Embedder) -> None:
        self._vectors, self._current, self._embedder = vectors, CurrentVectors(vectors), embedder
        self._facts = FactsCache(MAX_DECODED)
        self._collection: str | None = None
        """Name of the last collection; a change of the model takes effect at the next search."""

    async def search(self, asked: MemoryQuestion, requester: Requester) -> list[MemoryHit]:
        """Return the best memories that the owner may see, the best first.

        Raises ``MemoryRefusedError`` for a question without a letter or digit, or a limit out of bounds.
        """
        if not 1 <= asked.limit <= MOST_FOUND:
            raise MemoryRefusedError(f"{asked.limit} memories asked for: 1 to {MOST_FOUND}")
        question = question_of(asked.owner, asked.text, asked.participants)
        if not any(map(str.isalnum, question.text)):
            raise MemoryRefusedError("ask something: a question has letters or digits")
        using = await self._embed(question.text, requester)
        return await self._ranked(EmbeddedQuestion(asked, tuple(using.vector), using.model), using.collection)

    async def _ranked(self, asked: EmbeddedQuestion, collection: str) -> list[MemoryHit]:
        """Rank where the memories are, if the store can and one collection has them all; else here."""
        there: object = self._vectors
        if isinstance(there, RankingVectors) and await self._current.earlier(collection) is None:
            return await self._there(collection, there.rank(collection, asked), [])
        ranking = ranked_memories(asked, self._facts)
        queries = next(ranking)
        while True:
            found = await self._find(collection, queries)
            try:
                queries = ranking.send(found)
            except StopIteration as ended:
                ranked: list[MemoryHit] = ended.value
                return ranked

    async def counts(self, owner: Owner, requester: Requester) -> MemoryStats:
        """Return how much the owner's tenant has, of all owners."""
        name = self._collection or (await self._embed(_PROBE_TEXT, requester)).collection
        segments = Selection(owner, Whose.ALL, kinds=(SEGMENT_KIND,))
        tasks = Selection(owner, Whose.ALL, kinds=(TASK_KIND,), types=(FIRST_OF_TASK,))
        return MemoryStats(segments=await self._count(name, segments), tasks=await self._count(name, tasks))

    async def has_any(self, owner: Owner, requester: Requester) -> bool:
        """Whether the owner's tenant has anything that a search could find, of any owner."""
        name = self._collection or (await self._embed(_PROBE_TEXT, requester)).collection
        return await self._count(name, Selection(owner, Whose.ALL, kinds=(SEGMENT_KIND, NODE_KIND))) > 0

    async def _embed(self, text: str, requester: Requester) -> "_Embedded":
        embedded = await self._embedder.embed([text], requester)
        [vector] = embedded.vectors
        self._collection = collection_name(embedded.model, len(vector))
        return _Embedded(embedded.model, vector, self._collection)

    async def _find(self, name: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        nothing: list[list[Hit]] = [[] for _ in queries]
        return await self._there(name, self._current.search(name, queries), nothing)

    async def _count(self, name: str, selection: Selection) -> int:
        return await self._there(name, self._current.count(name, selection), 0)

    async def _there(self, name: str, asking: Awaitable[T], nothing: T) -> T:
        """Return the answer, or ``nothing`` where this model has no collection yet: then there are no memories."""
        try:
            return await asking
        except MemoryRefusedError:
            if name in {kept.name for kept in await self._current.collections()}:
                raise
            return nothing


@immutable
class _Embedded:
    model: str
    vector: list[float]
    collection: str
