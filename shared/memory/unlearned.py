"""What of a task its writer has in the graph already: an end costs what it adds, however long the task is. Pure.

Nothing of this is kept beside the graph, and it may be forgotten at any time: what is written again joins what is
there.
"""

from collections.abc import Iterable
from itertools import islice

from pentad.shared.immutable import immutable
from pentad.shared.memory.points import CutTask
from pentad.shared.memory.segment_lines import lines_digest, segment_line
from pentad.shared.segments.segment import Segment


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
    return Learned(len(task.segments), _digest(task.segments), gone)


def known_of(task: CutTask, gone: frozenset[str], earlier: Learned | None) -> int:
    """How many of a task's segments, the first, are in the graph as they are.

    0 also when something has gone since: another writer may have had it in the graph.
    """
    if earlier is None or earlier.gone != gone or earlier.count > len(task.segments):
        return 0
    return earlier.count if _digest(islice(task.segments, earlier.count)) == earlier.digest else 0


def _digest(segments: Iterable[Segment]) -> str:
    return lines_digest("", (f"{segment.holder} {segment_line(segment)}" for segment in segments))
