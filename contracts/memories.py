"""What clients are shown of long-term memory: hits with their anchors, and what an anchor opens to."""

from pentad.contracts.envelope import Contract
from pentad.contracts.records import SegmentType


class QuotedSegment(Contract):
    """A piece of what was said in a task."""

    id: str
    type: SegmentType
    content: str
    speaker: str
    """The user's name, else the role."""
    anchor: str
    task_id: str
    at: str | None
    """When it was said; None where that is not known."""


class FoundMemory(Contract):
    """A memory that a question found."""

    id: str
    kind: str
    """``episodic``: what was said, as it was said."""
    type: str
    content: str
    score: float
    """0 to 1: how it compares with the others that were found, not whether it answers."""
    parts: dict[str, float]
    """What the score is made of, each part with its weight."""
    anchor: str
    """Opens the place in its task where it stands. An opaque string."""
    task_id: str
    at: str | None


class OpenedAnchor(Contract):
    """The very words that an anchor points at, with what stands before and after them in their task."""

    anchor: str
    focus: QuotedSegment
    before: list[QuotedSegment]
    """The nearest last."""
    after: list[QuotedSegment]
    """The nearest first."""


class MemoryStats(Contract):
    """What a tenant's memory holds now."""

    segments: int
    tasks: int
