"""Expands an anchor: the very words it points at, with what was said before and after them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.records import Anchor
from pentad.shared.immutable import immutable
from pentad.shared.segments.anchors import BadAnchorError, quote_digest, segment_id
from pentad.shared.segments.passages import passages_of
from pentad.shared.segments.segment import Segment, segments_of

MOST_AROUND = 50
"""Segments that are shown on each side."""


@immutable
class ExpandedAnchor:
    """The segment that an anchor points at, with its neighbours."""

    focus: Segment
    before: tuple[Segment, ...]
    """Segments before it, the nearest last."""
    after: tuple[Segment, ...]
    """Segments after it, the nearest first."""


def expanded(tenant: str, anchor: Anchor, messages: Sequence[Mapping[str, Any]], window: int = 2) -> ExpandedAnchor:
    """Return the segment with ``window`` segments on each side, at most `MOST_AROUND`.

    ``messages`` is the task's transcript. Raises `BadAnchorError` when the words are not there: they were moved away,
    or it is another task's transcript.
    """
    focus = _quoted(tenant, anchor, messages)
    window = max(0, min(window, MOST_AROUND))
    segments = segments_of(tenant, anchor.task_id, messages)
    before = [segment for segment in segments if segment.place < focus.place]
    after = [segment for segment in segments if segment.place > focus.place]
    return ExpandedAnchor(focus, tuple(before[len(before) - min(window, len(before)) :]), tuple(after[:window]))


def segment_at(
    tenant: str, task_id: str, place: tuple[int, int, int], messages: Sequence[Mapping[str, Any]]
) -> Segment:
    """Return the segment at a place: message, part and number of the segment. Raises `BadAnchorError`."""
    position, part, number = place
    for segment in segments_of(tenant, task_id, messages, position):
        if (segment.anchor.position, segment.anchor.part, segment.anchor.segment) == (position, part, number):
            return segment
    raise BadAnchorError(f"there is nothing at this place of task {task_id}: search again")


def first_anchor(tenant: str, task_id: str, position: int, messages: Sequence[Mapping[str, Any]]) -> Anchor:
    """Return the anchor of the first segment of a message. Raises `BadAnchorError` when it has none."""
    for segment in segments_of(tenant, task_id, messages[: position + 1], position):
        return segment.anchor
    raise BadAnchorError(f"message {position} of this conversation has no words: take another number")


def _quoted(tenant: str, anchor: Anchor, messages: Sequence[Mapping[str, Any]]) -> Segment:
    for passage in passages_of(messages):
        if (passage.position, passage.part) == (anchor.position, anchor.part):
            quote = passage.text[anchor.start : anchor.end]
            if quote_digest(quote) == anchor.quote:
                return Segment(segment_id(tenant, anchor), anchor, quote, passage.speaker, passage.holder)
    raise BadAnchorError(f"what this anchor points at is not in task {anchor.task_id} any more: search again")
