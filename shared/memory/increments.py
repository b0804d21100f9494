"""Increments: which part of a task the stores do not have yet, so that a task's end costs only what is new. Pure.

Vectors: the point that stands for an owner's part says how many segments it covers, with a digest of them. It is
written after them, into the same store, so it never claims more than the store has, even after a backup is restored.
Where it differs from the task as it is now, for example after a message was moved away, the part is written whole.

Graph: its writer keeps in memory what it wrote last. That may be lost at any time: what is written again is merged with
what is there.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice

from pentad.shared.immutable import immutable
from pentad.shared.memory.points import (
    MARK_DETAIL,
    CutTask,
    OwnersPart,
    Vector,
    part_id,
    parts_of,
    segment_points,
    task_point,
)
from pentad.shared.recall.segment_features import AROUND
from pentad.shared.segments.segment import Segment
from pentad.shared.vectors.points import Payload, Point


def segment_line(segment: Segment) -> str:
    """Return a line that differs for any difference between segments, except their holder."""
    at = segment.anchor
    return f"{segment.id} {at.step} {at.start} {at.end} {at.type} {at.at} {at.quote} {segment.speaker!r}"


def lines_digest(begins: str, lines: Iterable[str]) -> str:
    """Return a digest of 32 characters. ``begins`` is hashed before the lines."""
    said = "\n".join((begins, *lines))
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_POINT_FORMAT = 2
"""Version of how points are made from segments. A new one rewrites every task when it ends again."""

FirstWritten = dict[str | None, int]
"""The first segment of each owner that was written."""


@immutable
class Unwritten:
    """An owner's part of a task of which something must be written: its point, and segments from ``first`` on."""

    part: OwnersPart
    first: int
    """Index of the first segment to write. It may exist already, with another neighbour."""

    @property
    def embedded(self) -> list[int]:
        """Indexes of the segments whose vectors are needed."""
        return list(self.part.places[max(0, self.first - AROUND) :])


def unwritten(task: CutTask, kept: Mapping[str, Payload], written: FirstWritten) -> list[Unwritten]:
    """Return what must be written of a task.

    ``kept`` has, by id, the payloads in the store of the points that stand for the parts. ``written`` says what this
    writer has written already: it may have overwritten what another has written since, so that is written again.
    """
    found = []
    for part in parts_of(task):
        there = kept.get(part_id(task, part))
        first = min(_first_unwritten(task, part, there), written.get(part.holder, len(part.places)))
        if first < len(part.places):
            found.append(Unwritten(part, first))
    return found


def new_points(task: CutTask, new: Unwritten, vectors: Mapping[int, Vector]) -> Iterator[Point]:
    """Yield the points of an increment's segments. ``vectors``: of the segments `Unwritten.embedded`, by index."""
    return segment_points(task, new.part, new.first, vectors)


def marked_point(task: CutTask, new: Unwritten) -> Point:
    """Return the point of an increment's part, to be written after its segments."""
    return task_point(task, new.part, _mark(task, new.part, len(new.part.places)))


def _first_unwritten(task: CutTask, part: OwnersPart, there: Payload | None) -> int:
    """Return the index of the first segment that the store does not have as it is now."""
    mark = str(there.details.get(MARK_DETAIL, "")) if there is not None else ""
    count = _count(mark)
    if not 0 < count <= len(part.places) or _mark(task, part, count) != mark:
        return 0
    return count if count == len(part.places) else max(0, count - AROUND)


def _mark(task: CutTask, part: OwnersPart, count: int) -> str:
    """Return the mark of a part's first segments: their number, and a digest of all that their points are made of."""
    lines = (f"{place} {segment_line(task.segments[place])}" for place in part.places[:count])
    return f"{count}.{lines_digest(f'{_POINT_FORMAT}/{part.kind}/{task.session}', lines)}"


def _count(mark: str) -> int:
    number = mark.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


@immutable
class Learned:
    """A task as it was when this process wrote its graph."""

    count: int
    """Number of its segments."""
    digest: str
    """Digest of its segments and their holders."""
    gone: frozenset[str]
    """Parts that had been removed: ids of segments and of forgotten nodes, indexes of messages."""


def learned_from(task: CutTask, gone: frozenset[str]) -> Learned:
    """Return the state of a task that is written completely. ``gone``: see `Learned.gone`."""
    return Learned(len(task.segments), _learned_digest(task.segments), gone)


def learned_count(task: CutTask, gone: frozenset[str], earlier: Learned | None) -> int:
    """Return how many of a task's first segments are in the graph as they are.

    It is 0 also when something was removed since: another writer may have written that to the graph.
    """
    if earlier is None or earlier.gone != gone or earlier.count > len(task.segments):
        return 0
    return earlier.count if _learned_digest(islice(task.segments, earlier.count)) == earlier.digest else 0


def _learned_digest(segments: Iterable[Segment]) -> str:
    return lines_digest("", (f"{segment.holder} {segment_line(segment)}" for segment in segments))
