"""The search features of segments: facts for ranking and sparse vectors, computed once and stored beside the text."""

from collections.abc import Iterator, Sequence
from operator import add
from typing import TypeVar

from pentad.contracts.ids import milliseconds
from pentad.contracts.records import SegmentType
from pentad.shared.immutable import immutable
from pentad.shared.recall.cues import asks, has_standing_wish, importance_of, names_time, only_asks
from pentad.shared.recall.proper_names import NamesInText, names_of
from pentad.shared.recall.terms import MEAN_AROUND, MEAN_TASK, MEAN_WORDS, SparseTerms, indexed_terms, terms_of
from pentad.shared.segments.anchors import message_name
from pentad.shared.segments.segment import Segment


class WordCache:
    """Caches `names_of` and `terms_of`, so that only new texts of a task that goes on are read.

    It grows with the texts that it is given; threads may share it.
    """

    __slots__ = ("_names", "_terms")

    def __init__(self) -> None:
        self._names: dict[str, NamesInText] = {}
        self._terms: dict[str, Sequence[int]] = {}

    def names(self, text: str) -> NamesInText:
        """Return the names in a text."""
        found = self._names.get(text)
        if found is None:
            found = self._names[text] = names_of(text)
        return found

    def terms(self, text: str) -> Sequence[int]:
        """Return the terms of a text."""
        found = self._terms.get(text)
        if found is None:
            found = self._terms[text] = tuple(terms_of(text))
        return found


T = TypeVar("T")

AROUND = 1
"""Number of segments on each side that belong to a segment's context."""
_MONTHS = "january february march april may june july august september october november december".split()
_DAY_COUNTS = 2
"""How often the words of a date are counted: most tasks are of one day, and say other words many times."""


@immutable
class SegmentFacts:
    """The facts of a segment that fusion uses: stored with it, and returned with each hit."""

    task: str
    asked_before: str | None
    """Id of the previous segment, if that one asks a question."""
    speaker: str
    by_user: bool
    """Whether the user said it."""
    asks: bool
    """Whether it does nothing but ask."""
    dated: bool
    """Whether it says when something happens."""
    names: NamesInText
    """Names by which it is found when another memory mentions one of them."""
    at_ms: int
    """Time at which it was said, in ms since the epoch; 0 where that is not known."""
    importance: float = 0.0
    """Importance, 0 to 1, see `importance_of`; 0 where it is not known."""
    wishes: bool = False
    """Whether the user says in it what he always wants, or prefers."""
    message: str = ""
    """Name of the message that it is a piece of, unique among all tasks; empty where it is no piece of one."""


@immutable
class SegmentFeatures:
    """The facts of a segment and its two sparse vectors. Its dense vectors are those of its text and of
    `around_vectors`."""

    facts: SegmentFacts
    words: SparseTerms
    around_words: SparseTerms


def features_of(segments: Sequence[Segment], read: WordCache | None = None) -> Iterator[SegmentFeatures]:
    """Yield the features of all segments of one task, in order; each is computed when it is asked for.

    ``read``: the cache of the task's texts, where there is one.
    """
    read = read or WordCache()
    for at, segment in enumerate(segments):
        yield SegmentFeatures(
            _facts(segment, segments[at - 1] if at else None, read),
            indexed_terms(read.terms(segment.text), MEAN_WORDS),
            indexed_terms([term for near in _neighbours(at, segments) for term in read.terms(near.text)], MEAN_AROUND),
        )


def task_terms(segments: Sequence[Segment], read: WordCache | None = None) -> SparseTerms:
    """Return the sparse vector of the point that stands for a task: all its words, and its dates in words.

    So "in May 2023" finds what was said then. ``read``: see `features_of`.
    """
    read = read or WordCache()
    said = [term for segment in segments for term in read.terms(segment.text)]
    days = dict.fromkeys(segment.anchor.at[:10] for segment in segments)
    return indexed_terms([*said, *(term for day in days for term in _day_terms(day))], MEAN_TASK)


def around_vectors(vectors: Sequence[Sequence[float]]) -> Iterator[Sequence[float]]:
    """Return the dense vectors of segments in their context, each computed when it is asked for.

    Each is the sum of the vectors of a segment and its neighbours, which are embedded anyway; its length does not
    matter, since cosines are compared. On the development data this finds as much as embedding the joined texts.
    ``vectors`` are those of the segments' texts, in order.
    """
    return (_sum(_neighbours(at, vectors)) for at in range(len(vectors)))


def _facts(segment: Segment, before: Segment | None, read: WordCache) -> SegmentFacts:
    anchor, names, dated = segment.anchor, read.names(segment.text), names_time(segment.text)
    by_user = anchor.type is SegmentType.USER_MESSAGE
    return SegmentFacts(
        task=anchor.task_id,
        asked_before=before.id if before is not None and asks(before.text) else None,
        speaker=segment.speaker,
        by_user=by_user,
        asks=only_asks(segment.text),
        dated=dated,
        names=names,
        at_ms=milliseconds(anchor.at) if anchor.at else 0,
        importance=importance_of(segment, names, read.terms(segment.text), dated=dated),
        wishes=by_user and has_standing_wish(segment.text),
        message=message_name(anchor.task_id, anchor.position, anchor.part),
    )


def _neighbours(at: int, items: Sequence[T]) -> Sequence[T]:
    return items[max(0, at - AROUND) : at + AROUND + 1]


def _sum(vectors: Sequence[Sequence[float]]) -> Sequence[float]:
    """Return the sum of vectors, or the first vector where the sum is zero and so has no direction."""
    sums = vectors[0]
    for vector in vectors[1:]:
        sums = list(map(add, sums, vector))
    return sums if any(sums) else vectors[0]


def _day_terms(day: str) -> list[int]:
    """Return the terms of a date as RFC 3339 writes it; none for an empty one."""
    if not day:
        return []
    year, month, number = day.split("-")
    return _DAY_COUNTS * terms_of(f"{number} {_MONTHS[int(month) - 1]} {year}")
