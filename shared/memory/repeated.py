"""Which segments only repeat what was recalled: an answer that quotes a memory is no second copy of it. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pentad.contracts.quotes import quotes_in
from pentad.contracts.records import SegmentType
from pentad.shared.models.loose_values import as_text
from pentad.shared.segments.segment import Segment

_OWN = 32
"""Letters and digits that an answer may have around each thing that it repeats and yet say nothing of its own."""
_ANCHOR = re.compile(r"\ba1\.[\w-]{16,}")


def unrepeated(segments: list[Segment], messages: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """The segments but answers that say, word for word, what the task was shown of the memory before, and little more.

    ``messages``: all of the transcript.
    """
    if not any(segment.anchor.type == SegmentType.RESPONSE for segment in segments):
        return segments
    shown = [(place, text) for place, message in enumerate(messages) if message.get("origin") for text in _of(message)]
    shown.sort(key=lambda each: -len(each[1]))
    return [each for each in segments if not _repeats(each, shown)] if shown else segments


def _of(message: Mapping[str, Any]) -> Iterator[str]:
    """What a message quotes; an answer of an earlier task, which names its source, as a whole."""
    content = as_text(message.get("content"))
    yield from (quote.text for quote in quotes_in(content))
    if message.get("role") == "assistant" and _ANCHOR.search(content):
        yield content


def _repeats(segment: Segment, shown: Sequence[tuple[int, str]]) -> bool:
    """``shown``: the longest first, so that none is taken for a part of another."""
    if segment.anchor.type != SegmentType.RESPONSE:
        return False
    left, repeated = segment.text, 0
    for place, text in shown:
        if place < segment.anchor.position and text and text in left:
            left, repeated = left.replace(text, " "), repeated + 1
    return repeated > 0 and sum(map(str.isalnum, _ANCHOR.sub(" ", left))) <= _OWN * repeated
