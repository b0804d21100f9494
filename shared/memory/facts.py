"""Facts that need no model: what people state and repeat, and what a model notes with `memory_note`. Pure.

Facts are looked for when a task is learned from, in that task alone: no job goes through the whole memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pentad.contracts.plain_json import read_json
from pentad.contracts.records import SegmentType
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.recall.cues import ends_asking, importance_of, names_time
from pentad.shared.recall.indexed_segments import WordCache
from pentad.shared.segments.segment import Segment

MIN_FACT_IMPORTANCE = 0.6
"""A statement that matters less is no fact, however often it is said."""
SEARCHED_IMPORTANCE = 0.9
"""A fact that matters as much is found by searches and by walks; another waits to be said again."""
REPETITION_IMPORTANCE = 0.1
"""What each further task adds that a fact is said in."""
MOST_FACTS = 256
"""Of one owner in a task, the first."""
MOST_STATEMENT_CHARS = 200
"""Characters of a statement; what is longer tells more than one thing."""


def stated_facts(segments: Sequence[Segment], known: int, read: WordCache) -> Iterator[tuple[Segment, float]]:
    """What an owner states in a task, with how much it matters. ``known``: the first of these segments are not told."""
    number = 0
    for place, segment in enumerate(segments):
        if segment.anchor.type is not SegmentType.USER_MESSAGE or len(segment.text) > MOST_STATEMENT_CHARS:
            continue
        text = segment.text
        importance = importance_of(segment, read.names(text), read.terms(text), dated=names_time(text))
        if importance < MIN_FACT_IMPORTANCE or ends_asking(segment.text):
            continue
        if place >= known:
            yield segment, importance
        number += 1
        if number == MOST_FACTS:
            return


def raised_by_repetition(written: Sequence[MemoryNode], there: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Of the nodes ``there`` those that matter more now, because other tasks say them too.

    ``written``: the same as this task says them. Whoever reads them last sees all who say them: so it is the same
    whoever is first, and again.
    """
    said: Mapping[str, float] = {node.id: node.importance for node in sorted(written, key=lambda node: node.importance)}
    grown = []
    for node in there:
        tasks = {support.task for support in node.supports}
        importance = min(1.0, round(said[node.id] + REPETITION_IMPORTANCE * (len(tasks) - 1), 2))
        if importance > node.importance:
            grown.append(replace(node, importance=importance))
    return grown


NOTE_TOOL = "memory_note"
MOST_NOTE_CHARS = 2_000
"""Of a note."""
_CALL_PREFIX = f"{NOTE_TOOL} "


def notes_in(segments: Sequence[Segment]) -> Iterator[tuple[str, Segment]]:
    """Each note, and the segment that its call begins with."""
    calls: dict[tuple[int, int], list[Segment]] = {}
    for segment in segments:
        if segment.anchor.type is SegmentType.TOOL_CALL:
            calls.setdefault((segment.anchor.position, segment.anchor.part), []).append(segment)
    for pieces in calls.values():
        note = _note(pieces)
        if note:
            yield note, pieces[0]


def _note(pieces: Sequence[Segment]) -> str:
    """The text of a call of the tool; '' for what is none."""
    if not pieces[0].text.startswith(_CALL_PREFIX):
        return ""
    try:
        given = read_json(_call_text(pieces).removeprefix(_CALL_PREFIX))
    except ValueError:
        return ""
    text = given.get("text") if isinstance(given, dict) else None
    if not isinstance(text, str) or len(text) > MOST_NOTE_CHARS or not any(map(str.isalnum, text)):
        return ""
    return text.encode("utf-8", "replace").decode()


def _call_text(pieces: Sequence[Segment]) -> str:
    """The call as it was written: what lies between its segments is white space."""
    whole = pieces[0].text
    for before, piece in pairwise(pieces):
        whole += " " * (piece.anchor.start - before.anchor.end) + piece.text
    return whole
