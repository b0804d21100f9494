"""A conversation archived and asked, by the product's own functions over an index in this process."""

import time
from collections.abc import Iterable, Sequence

from pentad.shared.immutable import immutable
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.recall.fusion import FOUND_EACH, FoundSegments, RankedSegment, fused
from pentad.shared.recall.name_paths import MOST_MENTIONS, connected, names_to_follow
from pentad.shared.recall.part_weights import PartWeights, weights_for
from pentad.shared.recall.questions import ReadQuestion, read_question
from pentad.shared.recall.written import around_vectors, task_terms, written_segments
from pentad.shared.segments.segmenting import Segment, segments_of
from tests.evaluation.conversations import AskedQuestion, RecordedConversation, RecordedTask
from tests.evaluation.exact_index import ExactIndex

MOST = 20
"""Turns that are looked at of each answer."""


@immutable
class Recalled:
    """Which turns a question found, the best first: by fusion, by BM25 alone, by the dense vectors alone."""

    conversation: str
    question: AskedQuestion
    fused: tuple[str, ...]
    words: tuple[str, ...]
    dense: tuple[str, ...]
    seconds: float
    """Of the whole recall."""
    embedding_seconds: float
    """Of these, what the embedding model took."""


class ArchivedConversation:
    """A conversation's memory. ``weights``: None for those of the embedding model."""

    def __init__(self, model: EmbeddingModel, weights: PartWeights | None = None) -> None:
        self._model, self._weights = model, weights or weights_for(model.name)
        self._index = ExactIndex()
        self._turns: dict[str, str] = {}
        """The turn of each segment."""
        self._newest = 0

    async def archive(self, conversation: RecordedConversation) -> None:
        """Take in its sessions as archived tasks."""
        for task in conversation.tasks:
            segments = segments_of("bench", task.id, task.messages)
            await self._keep(task, segments)

    async def _keep(self, task: RecordedTask, segments: Sequence[Segment]) -> None:
        written = written_segments(segments)
        self._index.add(task.id, task_terms(segments), written)
        texts = [segment.text for segment in segments]
        vectors: list[list[float]] = []
        for at in range(0, len(texts), self._model.most_texts):
            vectors += await self._model.embed(texts[at : at + self._model.most_texts])
        for segment, vector, around in zip(segments, vectors, around_vectors(vectors), strict=True):
            self._index.text.add(segment.id, vector)
            self._index.around.add(segment.id, around)
            self._turns[segment.id] = task.turns[segment.anchor.position]
        self._newest = max(self._newest, *(each.facts.at_ms for each in written), 0)

    async def ask(self, conversation: str, asked: AskedQuestion) -> Recalled:
        """Ask one question, and measure how long that takes."""
        participants = self._index.speakers()
        begun = time.perf_counter()
        question = read_question(asked.text, participants)
        embedding = time.perf_counter()
        [vector] = await self._model.embed([question.text])
        embedded = time.perf_counter()
        ranked = self._recall(question, vector)
        ended = time.perf_counter()
        [plain] = await self._model.embed([asked.text])
        return Recalled(
            conversation,
            asked,
            self._best(segment.id for segment in ranked),
            self._best(self._index.words.search(read_question(asked.text).terms, FOUND_EACH)),
            self._best(self._index.text.search(plain, FOUND_EACH)),
            ended - begun,
            embedded - embedding,
        )

    def _recall(self, question: ReadQuestion, vector: Sequence[float]) -> list[RankedSegment]:
        index = self._index
        found = FoundSegments(
            index.text.search(vector, FOUND_EACH),
            index.around.search(vector, FOUND_EACH),
            index.words.search(question.terms, FOUND_EACH),
            index.around_words.search(question.terms, FOUND_EACH),
            index.tasks.search(question.terms, FOUND_EACH),
        )
        facts = index.facts({*found.text, *found.around, *found.words, *found.around_words})
        ranked = fused(question, found, facts, self._weights, self._newest)
        following = names_to_follow(question, ranked, facts)
        graph = connected(following, index.mentions(following, MOST_MENTIONS + 1))
        if not graph:
            return ranked
        return fused(question, found.with_graph(graph), facts | index.facts(graph), self._weights, self._newest)

    def _best(self, segments: Iterable[str]) -> tuple[str, ...]:
        """The turns of these segments, each once."""
        return tuple(dict.fromkeys(self._turns[name] for name in segments))[:MOST]
