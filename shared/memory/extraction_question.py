"""What a model is asked of a finished task: its segments by number, and what is known already that is near. Pure."""

from collections.abc import Sequence

from pydantic_core import to_json

from pentad.contracts.records import SegmentType
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import CutTask
from pentad.shared.segments.segment import Segment

MOST_SEGMENTS = 120
MOST_CHARS = 24_000
"""Of all texts together: what is beyond is found as it was said, and nothing is made of it."""


@immutable
class NearNode:
    """Something known that the model may lead edges from and to."""

    id: str
    user: str | None
    """Its holder (`Owner.holder`)."""
    kind: str
    text: str


def asked_of(task: CutTask) -> list[Segment]:
    """The segments that the model is shown, in order; the first are number 1. None where nothing was said."""
    shown: list[Segment] = []
    chars = 0
    for segment in task.segments:
        chars += len(segment.text)
        if len(shown) == MOST_SEGMENTS or chars > MOST_CHARS:
            break
        if segment.anchor.type is not SegmentType.TOOL_CALL:
            shown.append(segment)
    return shown


def extraction_question(segments: Sequence[Segment], near: Sequence[NearNode]) -> str:
    """As the `memory_archiver` instruction gets it. Segments and nodes are numbered: models misspell ids."""
    said = [
        {"n": n, "type": each.anchor.type.value, "speaker": each.speaker, "at": each.anchor.at, "text": each.text}
        for n, each in enumerate(segments, start=1)
    ]
    known = [{"id": f"k{n}", "kind": each.kind, "text": each.text} for n, each in enumerate(near, start=1)]
    return to_json({"segments": said, "known": known}, inf_nan_mode="null").decode()
