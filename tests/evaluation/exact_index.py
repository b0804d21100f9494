"""Segments in this process, searched exactly: the five searches that fusion needs, as a vector store does them."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from math import log

import numpy as np
from numpy.typing import NDArray

from pentad.shared.recall.lexical import SparseTerms
from pentad.shared.recall.written import SegmentFacts, WrittenSegment

Vector = Sequence[float]


class DenseIndex:
    """Vectors of one name."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._rows: list[Vector] = []
        self._matrix: NDArray[np.float32] | None = None

    def add(self, name: str, vector: Vector) -> None:
        """Keep a vector."""
        self._ids.append(name)
        self._rows.append(vector)
        self._matrix = None

    def search(self, vector: Vector, limit: int) -> dict[str, float]:
        """The nearest by cosine; all vectors have length 1."""
        if self._matrix is None:
            self._matrix = np.array(self._rows, np.float32)
        # Not by BLAS: its threads spin, and on a busy machine a search then takes ten times as long.
        scores = np.einsum("ij,j->i", self._matrix, np.array(vector, np.float32))
        best = np.argsort(-scores, kind="stable")[:limit]
        return {self._ids[at]: float(scores[at]) for at in best}


class SparseIndex:
    """Sparse vectors of one name, with the rarity of each term."""

    def __init__(self) -> None:
        self._count = 0
        self._postings: dict[int, list[tuple[str, float]]] = {}

    def add(self, name: str, terms: SparseTerms) -> None:
        """Keep a vector."""
        self._count += 1
        for term, weight in terms.items():
            self._postings.setdefault(term, []).append((name, weight))

    def search(self, terms: SparseTerms, limit: int) -> dict[str, float]:
        """Those with the largest BM25."""
        scores: dict[str, float] = {}
        for term, asked in terms.items():
            postings = self._postings.get(term, [])
            rarity = asked * log(1 + (self._count - len(postings) + 0.5) / (len(postings) + 0.5))
            for name, weight in postings:
                scores[name] = scores.get(name, 0.0) + rarity * weight
        return dict(nlargest(limit, scores.items(), key=lambda item: item[1]))


class ExactIndex:
    """The segments of one memory."""

    def __init__(self) -> None:
        self.text, self.around = DenseIndex(), DenseIndex()
        self.words, self.around_words, self.tasks = SparseIndex(), SparseIndex(), SparseIndex()
        self._facts: dict[str, SegmentFacts] = {}
        self._mentions: dict[str, list[str]] = {}

    def add(self, task: str, terms: SparseTerms, written: Sequence[WrittenSegment]) -> None:
        """Keep a task's own point and the facts and words of its segments; vectors are added by themselves."""
        self.tasks.add(task, terms)
        for each in written:
            name = each.segment.id
            self._facts[name] = each.facts
            self.words.add(name, each.words)
            self.around_words.add(name, each.around_words)
            for mentioned in (*each.facts.names.sure, *each.facts.names.perhaps):
                self._mentions.setdefault(mentioned, []).append(name)

    def speakers(self) -> set[str]:
        """Who has said something."""
        return {facts.speaker for facts in self._facts.values()}

    def facts(self, names: Iterable[str]) -> dict[str, SegmentFacts]:
        """What is known of these segments."""
        return {name: self._facts[name] for name in names}

    def mentions(self, names: Iterable[str], limit: int) -> Mapping[str, Sequence[str]]:
        """The segments that mention each name, at most ``limit`` of each."""
        return {name: self._mentions[name][:limit] for name in names if name in self._mentions}
