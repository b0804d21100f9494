"""What enters semantic memory of what people say, without a model: what they want known, and what they say again. Pure.

It is looked at when a task is learned from, of what that task says and of nothing else: nobody goes through the memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pentad.contracts.records import SegmentType
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.recall.cues import ends_asking, importance_of, names_time
from pentad.shared.recall.indexed_segments import WordCache
from pentad.shared.segments.segment import Segment

KEPT = 0.6
"""A statement that matters less is no fact, however often it is said."""
ENTERS = 0.9
"""A fact that matters as much is found by searches and by walks; another waits to be said again."""
AGAIN = 0.1
"""What each further task adds that a fact is said in."""
MOST_FACTS = 256
"""Of one owner in a task, the first."""
LONGEST = 200
"""Characters of a statement; what is longer tells more than one thing."""


def statements(segments: Sequence[Segment], known: int, read: WordCache) -> Iterator[tuple[Segment, float]]:
    """What an owner states in a task, with how much it matters. ``known``: the first of these segments are not told."""
    number = 0
    for place, segment in enumerate(segments):
        if segment.anchor.type is not SegmentType.USER_MESSAGE or len(segment.text) > LONGEST:
            continue
        text = segment.text
        importance = importance_of(segment, read.names(text), read.terms(text), dated=names_time(text))
        if importance < KEPT or ends_asking(segment.text):
            continue
        if place >= known:
            yield segment, importance
        number += 1
        if number == MOST_FACTS:
            return


def consolidated(written: Sequence[MemoryNode], there: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Of the nodes ``there`` those that matter more now, because other tasks say them too.

    ``written``: the same as this task says them. Whoever reads them last sees all who say them: so it is the same
    whoever is first, and again.
    """
    said: Mapping[str, float] = {node.id: node.importance for node in sorted(written, key=lambda node: node.importance)}
    grown = []
    for node in there:
        tasks = {support.task for support in node.supports}
        importance = min(1.0, round(said[node.id] + AGAIN * (len(tasks) - 1), 2))
        if importance > node.importance:
            grown.append(replace(node, importance=importance))
    return grown
