"""What of a task its memory has not yet: an end costs what it adds, however long the task is. Pure.

The point that stands for an owner's part says how many segments it stands for, and has a digest of them. It is written
after them, into the same store: so it never says more than the store has, also when that comes from a backup. Where it
says something else than the task now does, as after a message was moved away, the part is written whole.
"""

from collections.abc import Iterator, Mapping

from pentad.shared.immutable import immutable
from pentad.shared.memory.points import MARK, CutTask, OwnersPart, Vector, part_id, parts_of, segment_points, task_point
from pentad.shared.memory.segment_lines import lines_digest, segment_line
from pentad.shared.recall.indexed_segments import AROUND
from pentad.shared.vectors.points import Payload, Point

_FORM = 2
"""How points are made of segments. Another number writes every task that ends again whole."""

Firsts = dict[str | None, int]
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


def unwritten(task: CutTask, kept: Mapping[str, Payload], written: Firsts) -> list[Unwritten]:
    """What is to be written.

    ``kept``: what the store has of the points that stand for the parts, by id. ``written``: what this writer has
    written already, and may have written over what another has written since: that is written again.
    """
    found = []
    for part in parts_of(task):
        there = kept.get(part_id(task, part))
        first = min(_first_new(task, part, there), written.get(part.holder, len(part.places)))
        if first < len(part.places):
            found.append(Unwritten(part, first))
    return found


def new_points(task: CutTask, new: Unwritten, vectors: Mapping[int, Vector]) -> Iterator[Point]:
    """Its segments' points, each made when it is asked for. ``vectors``: of what is `Unwritten.embedded`, by place."""
    return segment_points(task, new.part, new.first, vectors)


def marked_point(task: CutTask, new: Unwritten) -> Point:
    """The part's point, to be written when its segments are."""
    return task_point(task, new.part, _mark(task, new.part, len(new.part.places)))


def _first_new(task: CutTask, part: OwnersPart, there: Payload | None) -> int:
    """The first of the owner's segments that the store does not have as it is now."""
    mark = str(there.details.get(MARK, "")) if there is not None else ""
    count = _count(mark)
    if not 0 < count <= len(part.places) or _mark(task, part, count) != mark:
        return 0
    return count if count == len(part.places) else max(0, count - AROUND)


def _mark(task: CutTask, part: OwnersPart, count: int) -> str:
    """Says which segments, how many and in which form: all that their points are made of."""
    lines = (f"{place} {segment_line(task.segments[place])}" for place in part.places[:count])
    return f"{count}.{lines_digest(f'{_FORM}/{part.kind}/{task.session}', lines)}"


def _count(mark: str) -> int:
    number = mark.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 10 else 0
