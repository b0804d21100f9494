"""What a model has noted in a task by calling `memory_note`: read from the segments of its calls. Pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pentad.contracts.plain_json import read_json
from pentad.contracts.records import SegmentType
from pentad.shared.segments.segment import Segment

NOTE_TOOL = "memory_note"
MOST_CHARS = 2_000
"""Of a note."""
_BEGIN = f"{NOTE_TOOL} "


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
    if not pieces[0].text.startswith(_BEGIN):
        return ""
    try:
        given = read_json(_joined(pieces).removeprefix(_BEGIN))
    except ValueError:
        return ""
    text = given.get("text") if isinstance(given, dict) else None
    if not isinstance(text, str) or len(text) > MOST_CHARS or not any(map(str.isalnum, text)):
        return ""
    return text.encode("utf-8", "replace").decode()


def _joined(pieces: Sequence[Segment]) -> str:
    """The call as it was written: what lies between its segments is white space."""
    whole = pieces[0].text
    for before, piece in pairwise(pieces):
        whole += " " * (piece.anchor.start - before.anchor.end) + piece.text
    return whole
