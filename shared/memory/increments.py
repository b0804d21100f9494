"""What a task adds to the stores since it was last written: the cost of a task's end is what is new in it. Pure.

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
from pentad.shared.recall.indexed_segments import AROUND
from pentad.shared.segments.segment import Segment
from pentad.shared.vectors.points import Payload, Point


def segment_line(segment: Segment) -> str:
    """Another one for whatever differs in the segment, but for whose it is."""
    at = segment.anchor
    return f"{segment.id} {at.step} {at.start} {at.end} {at.type} {at.at} {at.quote} {segment.speaker!r}"


def lines_digest(begins: str, lines: Iterable[str]) -> str:
    """A digest of 32 characters. ``begins``: what else is told by it."""
    said = "\n".join((begins, *lines))
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_POINT_FORMAT = 2
"""How points are made of segments. Another number writes every task that ends again whole."""

FirstWritten = dict[str | None, int]
"""For each owner the first of his segments that was written."""


@immutable
class Unwritten:
    """An owner's part of which something is to be written: its point, and his segments from one of them on."""

    part: OwnersPart
    first: int
    """That one. It may be there already, with another neighbour."""

    @property
    def embedded(self) -> list[int]:
        """Places of the segments whose vectors are wanted."""
        return list(self.part.places[max(0, self.first - AROUND) :])


def unwritten(task: CutTask, kept: Mapping[str, Payload], written: FirstWritten) -> list[Unwritten]:
    """What is to be written.

    ``kept``: what the store has of the points that stand for the parts, by id. ``written``: what this writer has
    written already, and may have written over what another has written since: that is written again.
    """
    found = []
    for part in parts_of(task):
        there = kept.get(part_id(task, part))
        first = min(_first_unwritten(task, part, there), written.get(part.holder, len(part.places)))
        if first < len(part.places):
            found.append(Unwritten(part, first))
    return found


def new_points(task: CutTask, new: Unwritten, vectors: Mapping[int, Vector]) -> Iterator[Point]:
    """Its segments' points, each made when it is asked for. ``vectors``: of what is `Unwritten.embedded`, by place."""
    return segment_points(task, new.part, new.first, vectors)


def marked_point(task: CutTask, new: Unwritten) -> Point:
    """The part's point, to be written when its segments are."""
    return task_point(task, new.part, _mark(task, new.part, len(new.part.places)))


def _first_unwritten(task: CutTask, part: OwnersPart, there: Payload | None) -> int:
    """The first of the owner's segments that the store does not have as it is now."""
    mark = str(there.details.get(MARK_DETAIL, "")) if there is not None else ""
    count = _count(mark)
    if not 0 < count <= len(part.places) or _mark(task, part, count) != mark:
        return 0
    return count if count == len(part.places) else max(0, count - AROUND)


def _mark(task: CutTask, part: OwnersPart, count: int) -> str:
    """Says which segments, how many and in which form: all that their points are made of."""
    lines = (f"{place} {segment_line(task.segments[place])}" for place in part.places[:count])
    return f"{count}.{lines_digest(f'{_POINT_FORMAT}/{part.kind}/{task.session}', lines)}"


def _count(mark: str) -> int:
    number = mark.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


@immutable
class Learned:
    """A task as it was when its graph was written, by who has written it."""

    count: int
    """Of its segments."""
    digest: str
    """Of what they say, and to whom they belong."""
    gone: frozenset[str]
    """What was its no more: ids of segments and of forgotten nodes, places of messages."""


def learned_from(task: CutTask, gone: frozenset[str]) -> Learned:
    """What is known when all of a task is written. ``gone``: see `Learned.gone`."""
    return Learned(len(task.segments), _learned_digest(task.segments), gone)


def learned_count(task: CutTask, gone: frozenset[str], earlier: Learned | None) -> int:
    """How many of a task's segments, the first, are in the graph as they are.

    0 also when something has gone since: another writer may have had it in the graph.
    """
    if earlier is None or earlier.gone != gone or earlier.count > len(task.segments):
        return 0
    return earlier.count if _learned_digest(islice(task.segments, earlier.count)) == earlier.digest else 0


def _learned_digest(segments: Iterable[Segment]) -> str:
    return lines_digest("", (f"{segment.holder} {segment_line(segment)}" for segment in segments))
