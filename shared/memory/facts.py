"""Facts that need no model: what people state and repeat, and what a model notes with `memory_note`. Pure.

Facts are looked for when a task is learned from, in that task alone: no job goes through the whole memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pentad.contracts.plain_json import read_json
from pentad.contracts.records import SegmentType
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.recall.cues import ends_asking, importance_of, names_time
from pentad.shared.recall.segment_features import WordCache
from pentad.shared.segments.segment import Segment

MIN_FACT_IMPORTANCE = 0.6
"""Importance of a statement that becomes a fact; one that matters less does not, however often it is repeated."""
SEARCHED_IMPORTANCE = 0.9
"""Importance from which a fact is found by searches and walks; another waits to be repeated."""
REPETITION_IMPORTANCE = 0.1
"""Importance that a fact gains with each further task in which it is said."""
MOST_FACTS = 256
"""Facts of one owner in a task, the first."""
MOST_STATEMENT_CHARS = 200
"""Characters of a statement; a longer text says more than one thing."""


def stated_facts(segments: Sequence[Segment], known: int, read: WordCache) -> Iterator[tuple[Segment, float]]:
    """Yield the statements of an owner in a task, with their importance. The first ``known`` segments are skipped."""
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
    """Return the existing nodes that matter more now, because other tasks say them too.

    ``written`` are the nodes as this task says them. The last reader sees all supports, so the order of writers does
    not matter, and repetition is safe.
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
"""Characters of a note."""
MIN_NOTE_IMPORTANCE = 0.2
"""Importance of a note that becomes a fact."""
_CALL_PREFIX = f"{NOTE_TOOL} "


def notes_in(segments: Sequence[Segment]) -> Iterator[tuple[str, float, Segment]]:
    """Yield each note that matters enough, its importance, and the first segment of its call.

    A model asked for it, so it can be searched for from the beginning, however much it matters.
    """
    calls: dict[tuple[int, int], list[Segment]] = {}
    for segment in segments:
        if segment.anchor.type is SegmentType.TOOL_CALL:
            calls.setdefault((segment.anchor.position, segment.anchor.part), []).append(segment)
    for pieces in calls.values():
        given = _noted(pieces)
        text, importance = given.get("text"), given.get("importance", SEARCHED_IMPORTANCE)
        if not isinstance(text, str) or len(text) > MOST_NOTE_CHARS or not any(map(str.isalnum, text)):
            continue
        if type(importance) in {int, float} and MIN_NOTE_IMPORTANCE <= importance <= 1:
            note = text.encode("utf-8", "replace").decode()
            yield note, max(SEARCHED_IMPORTANCE, float(importance)), pieces[0]


def _noted(pieces: Sequence[Segment]) -> dict[str, Any]:
    """Return the arguments of a call of the tool; none for another call."""
    if not pieces[0].text.startswith(_CALL_PREFIX):
        return {}
    try:
        given = read_json(_call_text(pieces).removeprefix(_CALL_PREFIX))
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _call_text(pieces: Sequence[Segment]) -> str:
    """Return the call as it was written: between its segments there is only white space."""
    whole = pieces[0].text
    for before, piece in pairwise(pieces):
        whole += " " * (piece.anchor.start - before.anchor.end) + piece.text
    return whole
