"""A conversation archived and asked by the product's own functions, in the embedded store."""

import time
from collections.abc import Iterable, Sequence

from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import SEGMENT_KIND, cut_task, points_of, sparse, texts_of
from pentad.shared.memory.ranking import MOST_FOUND, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.owners import Owner
from pentad.shared.recall.questions import read_question
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.points import Dense, Sparse, collection_name
from pentad.shared.vectors.selection import DenseQuery, Selection, SparseQuery, VectorQuery
from pentad.shared.vectors.vector_store import Vectors
from tests.evaluation.conversations import AskedQuestion, RecordedConversation, RecordedTask

MOST = 20
"""Turns that are looked at of each answer."""
_ALONE = 200
"""Segments that a search by itself is asked for."""


@immutable
class Recalled:
    """Which turns a question found, the best first: by recall, by BM25 alone, by the dense vectors alone."""

    conversation: str
    question: AskedQuestion
    fused: tuple[str, ...]
    words: tuple[str, ...]
    dense: tuple[str, ...]
    seconds: float
    """Of the whole recall."""
    embedding_seconds: float
    """Of these, what the embedding model took."""


class TimedEmbedder:
    """A model as an embedder, with the seconds that it took so far."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model, self.seconds = model, 0.0

    async def embed(self, texts: Sequence[str], requester: Requester | None = None) -> Embedded:
        """One vector per text, however many texts."""
        begun, vectors = time.perf_counter(), list[list[float]]()
        for at in range(0, len(texts), self._model.most_texts):
            vectors += await self._model.embed(texts[at : at + self._model.most_texts])
        self.seconds += time.perf_counter() - begun
        return Embedded(self._model.name, vectors)

    async def aclose(self) -> None:
        """The model is closed by whoever made it."""


class ArchivedConversation:
    """A conversation's memory: a tenant of its own."""

    def __init__(self, model: EmbeddingModel, vectors: Vectors, tenant: str) -> None:
        self._embedder, self._vectors, self._owner = TimedEmbedder(model), vectors, Owner(tenant)
        self._asking = Requester(0, tenant, "bench")
        self._memory = MemorySearch(vectors, self._embedder)
        self._turns: dict[str, str] = {}
        """The turn of each segment."""
        self._speakers: set[str] = set()
        self._newest = 0
        self._collection = ""

    async def archive(self, conversation: RecordedConversation) -> None:
        """Take in its sessions as archived tasks."""
        for task in conversation.tasks:
            await self._keep(task)

    async def _keep(self, task: RecordedTask) -> None:
        cut = cut_task(self._owner.tenant, task.id, "bench", task.messages)
        embedded = await self._embedder.embed(texts_of(cut))
        points = points_of(cut, embedded.vectors)
        if points:
            self._collection = collection_name(embedded.model, len(embedded.vectors[0]))
            await self._vectors.prepare(self._collection, len(embedded.vectors[0]))
        for at in range(0, len(points), MOST_POINTS):
            await self._vectors.upsert(self._collection, points[at : at + MOST_POINTS])
        self._turns |= {segment.id: task.turns[segment.anchor.position] for segment in cut.segments}
        self._speakers |= {segment.speaker for segment in cut.segments}
        self._newest = max(self._newest, *(point.payload.at for point in points), 0)

    async def ask(self, conversation: str, asked: AskedQuestion) -> Recalled:
        """Ask one question, and measure how long that takes."""
        question = MemoryQuestion(self._owner, asked.text, MOST_FOUND, self._newest, tuple(self._speakers))
        begun, embedded = time.perf_counter(), self._embedder.seconds
        found = await self._memory.search(question, self._asking)
        ended, embedded = time.perf_counter(), self._embedder.seconds - embedded
        words, dense = await self._alone(asked.text)
        best = self._best(hit.id for hit in found)
        return Recalled(conversation, asked, best, words, dense, ended - begun, embedded)

    async def _alone(self, question: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What BM25 finds by itself, and what the dense vectors do."""
        selection = Selection(self._owner, kinds=(SEGMENT_KIND,))
        [vector] = (await self._embedder.embed([question])).vectors
        words = SparseQuery(sparse(read_question(question).terms), Sparse.WORDS, selection, _ALONE)
        dense = DenseQuery(tuple(vector), Dense.TEXT, selection, _ALONE)
        return await self._turns_of(words), await self._turns_of(dense)

    async def _turns_of(self, query: VectorQuery) -> tuple[str, ...]:
        found = await self._vectors.search(self._collection, [query]) if self._collection else []
        return self._best(hit.id for hits in found for hit in hits)

    def _best(self, segments: Iterable[str]) -> tuple[str, ...]:
        """The turns of these segments, each once."""
        return tuple(dict.fromkeys(self._turns[name] for name in segments))[:MOST]
