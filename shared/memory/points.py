"""A finished task as points of a store of vectors, and what is read from them again. Pure.

A user's memories are made only of what that user owns: the neighbours of a segment, and the words of a task, are those
of the same owner. So a task has a point of its own for each owner in it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

from pentad.contracts.ids import milliseconds
from pentad.contracts.quotes import quotes_in
from pentad.contracts.records import SegmentType
from pentad.shared.immutable import immutable
from pentad.shared.memory.mentions import name_terms, names_kept, names_told
from pentad.shared.models.loose_values import as_text
from pentad.shared.owners import Owner
from pentad.shared.recall.cues import MOST_ASKING_CHARS
from pentad.shared.recall.segment_features import (
    AROUND,
    SegmentFacts,
    SegmentFeatures,
    WordCache,
    around_vectors,
    features_of,
    task_terms,
)
from pentad.shared.recall.terms import SparseTerms, words_digest
from pentad.shared.segments.anchors import anchor_text, message_of, task_point_id
from pentad.shared.segments.segment import MOST_OF_TASK, Segment, segments_of
from pentad.shared.vectors.points import Dense, Detail, Payload, Point, Sparse, SparseVector

SEGMENT_KIND = "episodic"
"""Kind of points of segments: what was said, word for word."""
NODE_KIND = "semantic"
"""Kind of points of nodes of the graph."""
TASK_KIND = "task"
"""Kind of points that stand for all that was said in a task."""
FIRST_OF_TASK, ALSO_OF_TASK = "task", "also"
"""Types of the points of `TASK_KIND`: each task has exactly one of the first; further owners have the second."""
_MAX_SPEAKER_CHARS = 128
_DIGEST_DETAIL = "words"
"""Name of the detail with `words_digest`."""
MARK_DETAIL = "written"
"""Name of the detail of a point of `TASK_KIND` that says which segments it covers, and in which format."""
Vector = Sequence[float]


@immutable
class CutTask:
    """A finished task, cut into segments."""

    tenant: str
    id: str
    session: str
    segments: Sequence[Segment]
    read: WordCache = field(default_factory=WordCache, compare=False, repr=False)
    """Cache of its texts' names and terms."""


@immutable
class OwnersPart:
    """The part of a task that one owner holds."""

    holder: str | None
    kind: str
    """Type of its point, `FIRST_OF_TASK` or `ALSO_OF_TASK`."""
    places: Sequence[int]
    """Indexes of the owner's segments among the task's."""


def cut_task(tenant: str, task_id: str, session: str, messages: Sequence[Mapping[str, Any]]) -> CutTask:
    """Cut a task into segments. ``messages``: its transcript as records have it."""
    return CutTask(tenant, task_id, session, without_repeats(segments_of(tenant, task_id, messages), messages))


def cut_further(task: CutTask, messages: Sequence[Mapping[str, Any]], begin: int) -> CutTask:
    """Return a cut task with what was said from the message at ``begin`` on; nothing was moved away since.

    ``messages``: all of its transcript.
    """
    more = without_repeats(segments_of(task.tenant, task.id, messages, begin), messages)
    return CutTask(task.tenant, task.id, task.session, [*task.segments, *more][:MOST_OF_TASK], task.read)


def without(task: CutTask, ids: Collection[str]) -> CutTask:
    """Return a task without these segments."""
    if not ids:
        return task
    left = [each for each in task.segments if each.id not in ids]
    return CutTask(task.tenant, task.id, task.session, left, task.read)


def texts_of(task: CutTask) -> list[str]:
    """Return the texts to embed, in order."""
    return [segment.text for segment in task.segments]


def parts_of(task: CutTask) -> list[OwnersPart]:
    """Return the parts of its owners, in the order in which they first speak."""
    places: dict[str | None, list[int]] = {}
    for place, segment in enumerate(task.segments):
        places.setdefault(segment.holder, []).append(place)
    kinds = (FIRST_OF_TASK if not number else ALSO_OF_TASK for number in range(len(places)))
    return [OwnersPart(holder, kind, own) for kind, (holder, own) in zip(kinds, places.items(), strict=True)]


def part_id(task: CutTask, part: OwnersPart) -> str:
    """Return the id of the point that stands for this part."""
    return task_point_id(task.tenant, task.id, part.holder)


def ids_of(task: CutTask) -> set[str]:
    """Return the ids of all its points."""
    return {segment.id for segment in task.segments} | {part_id(task, part) for part in parts_of(task)}


def points_of(task: CutTask, vectors: Sequence[Vector]) -> list[Point]:
    """Return all points of a task; none of an empty one. ``vectors``: of its texts, in order."""
    by_place = dict(enumerate(vectors))
    points: list[Point] = []
    for part in parts_of(task):
        points += [task_point(task, part, ""), *segment_points(task, part, 0, by_place)]
    return points


def segment_points(task: CutTask, part: OwnersPart, first: int, vectors: Mapping[int, Vector]) -> Iterator[Point]:
    """Return the points of an owner's segments from the ``first`` on, each made when it is asked for.

    ``vectors``: by index, of their texts and of `AROUND` texts of the same owner before them.
    """
    begin = max(0, first - AROUND)
    own = part.places[begin:]
    near = [vectors[place] for place in own]
    features = features_of([task.segments[place] for place in own], task.read)
    made = zip(own, features, near, around_vectors(near), strict=True)
    return (_segment_point(task, part.holder, *each) for each in islice(made, first - begin, None))


def task_point(task: CutTask, part: OwnersPart, mark: str) -> Point:
    """Return the point that stands for an owner's part. ``mark``: see `MARK_DETAIL`; empty: it has none."""
    segments = [task.segments[place] for place in part.places]
    last = segments[-1].anchor.at
    payload = Payload(
        owner=Owner.of_holder(task.tenant, part.holder),
        kind=TASK_KIND,
        type=part.kind,
        task=task.id,
        session=task.session,
        position=0,
        at=milliseconds(last) if last else 0,
        importance=0.0,
        anchor=anchor_text(segments[0].anchor),
        text="",
        details={MARK_DETAIL: mark} if mark else {},
    )
    return Point(part_id(task, part), payload, sparse={Sparse.TASK_WORDS: sparse(task_terms(segments, task.read))})


def facts_of(payload: Payload) -> SegmentFacts:
    """Return the facts of a segment that a search found."""
    kept = payload.details
    before = kept.get("asked_before")
    return SegmentFacts(
        task=payload.task,
        asked_before=None if before is None else str(before),
        speaker=str(kept.get("speaker", "")),
        by_user=bool(kept.get("by_user")),
        asks=bool(kept.get("asks")) and len(payload.text) <= MOST_ASKING_CHARS,
        dated=bool(kept.get("dated")),
        names=names_kept(kept),
        at_ms=payload.at,
        importance=payload.importance,
        wishes=bool(kept.get("wishes")),
        message=message_of(payload.anchor) if payload.kind == SEGMENT_KIND else "",
    )


def words_kept(payload: Payload) -> str:
    """Return a digest of the words of a segment or node, see `words_digest`."""
    kept = payload.details.get(_DIGEST_DETAIL)
    return words_digest(payload.text) if kept is None else str(kept)


def _segment_point(
    task: CutTask, holder: str | None, place: int, features: SegmentFeatures, text: Vector, around: Vector
) -> Point:
    names = name_terms((*features.facts.names.sure, *features.facts.names.perhaps))
    return Point(
        task.segments[place].id,
        segment_payload(task, holder, place, features.facts),
        {Dense.TEXT: tuple(text), Dense.AROUND: tuple(around)},
        {Sparse.WORDS: sparse(features.words | names), Sparse.AROUND_WORDS: sparse(features.around_words)},
    )


def segment_payload(task: CutTask, holder: str | None, place: int, facts: SegmentFacts) -> Payload:
    """Return the payload of a segment. ``place``: its index among its task's segments."""
    segment = task.segments[place]
    return Payload(
        owner=Owner.of_holder(task.tenant, holder),
        kind=SEGMENT_KIND,
        type=segment.anchor.type.value,
        task=task.id,
        session=task.session,
        position=place,
        at=facts.at_ms,
        importance=facts.importance,
        anchor=anchor_text(segment.anchor),
        text=_writable(segment.text),
        details=_segment_details(facts, words_digest(segment.text)),
    )


def bare_payload(task: CutTask, place: int) -> Payload:
    """Return a payload that identifies a segment and its owner, without its words. ``place``: its index."""
    segment = task.segments[place]
    return Payload(
        owner=Owner.of_holder(task.tenant, segment.holder),
        kind=SEGMENT_KIND,
        type=segment.anchor.type.value,
        task=task.id,
        session=task.session,
        position=place,
        at=milliseconds(segment.anchor.at) if segment.anchor.at else 0,
        importance=0.0,
        anchor=anchor_text(segment.anchor),
        text="",
    )


def _segment_details(facts: SegmentFacts, digest: str) -> dict[str, Detail]:
    """Return the details that `facts_of` and `words_kept` read; false ones are left out."""
    told: dict[str, Detail] = {"speaker": _writable(facts.speaker[:_MAX_SPEAKER_CHARS])}
    told |= {name: True for name in ("by_user", "asks", "dated", "wishes") if getattr(facts, name)}
    told |= {_DIGEST_DETAIL: digest} if digest else {}
    if facts.asked_before is not None:
        told["asked_before"] = facts.asked_before
    return told | names_told(facts.names)


def sparse(terms: SparseTerms) -> SparseVector:
    """Return a sparse vector of the terms and their weights."""
    return SparseVector(tuple(terms), tuple(terms.values()))


def _writable(text: str) -> str:
    """Return a text that UTF-8 can encode: half a character becomes `?`."""
    return text.encode("utf-8", "replace").decode()


_MAX_OWN_CHARS = 32
"""Letters and digits of its own that an answer may have around each quote and still count as a repetition."""
_ANCHOR = re.compile(r"\ba1\.[\w-]{16,}")


def without_repeats(segments: list[Segment], messages: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """Return the segments without answers that only repeat, word for word, what the task was shown of the memory.

    An answer that quotes a memory is no second copy of it. ``messages``: all of the transcript.
    """
    if not any(segment.anchor.type == SegmentType.RESPONSE for segment in segments):
        return segments
    shown = [
        (place, text)
        for place, message in enumerate(messages)
        if message.get("origin")
        for text in _quoted_texts(message)
    ]
    shown.sort(key=lambda each: -len(each[1]))
    return [each for each in segments if not _repeats(each, shown)] if shown else segments


def _quoted_texts(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a message quotes; for an answer of an earlier task, which names its source, all of it."""
    content = as_text(message.get("content"))
    yield from (quote.text for quote in quotes_in(content))
    if message.get("role") == "assistant" and _ANCHOR.search(content):
        yield content


def _repeats(segment: Segment, shown: Sequence[tuple[int, str]]) -> bool:
    """Whether a segment repeats what was shown. ``shown``: the longest first, so that none is taken for part of
    another."""
    if segment.anchor.type != SegmentType.RESPONSE:
        return False
    left, repeated = segment.text, 0
    for place, text in shown:
        if place < segment.anchor.position and text and text in left:
            left, repeated = left.replace(text, " "), repeated + 1
    return repeated > 0 and sum(map(str.isalnum, _ANCHOR.sub(" ", left))) <= _MAX_OWN_CHARS * repeated
