"""A segment in one line: all that its point, and the nodes that rest on it, are made of. Pure."""

from collections.abc import Iterable
from hashlib import sha256

from pentad.shared.segments.segment import Segment


def segment_line(segment: Segment) -> str:
    """Another one for whatever differs in the segment, but for whose it is."""
    at = segment.anchor
    return f"{segment.id} {at.step} {at.start} {at.end} {at.type} {at.at} {at.quote} {segment.speaker!r}"


def lines_digest(begins: str, lines: Iterable[str]) -> str:
    """A digest of 32 characters. ``begins``: what else is told by it."""
    said = "\n".join((begins, *lines))
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]
