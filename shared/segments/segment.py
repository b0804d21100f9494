"""A finished task as segments: pieces of bounded length that are searched for, each with its anchor. Pure.

Segment ids come from positions in the transcript, which is only appended to. So archiving a task again gives the same
ids, and a task that was reopened adds segments without touching the ones it had.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pentad.contracts.records import Anchor
from pentad.shared.immutable import immutable
from pentad.shared.segments.anchors import quote_digest, segment_id
from pentad.shared.segments.passages import Passage, passages_of

MAX_SEGMENT_CHARS = 800
"""Characters of a segment: about 200 English tokens, which an embedding model reads as a whole."""
MIN_CUT_CHARS = MAX_SEGMENT_CHARS // 2
"""Characters that a cut segment has at least, which bounds the number of segments of a text."""
_SENTENCE_END = re.compile(r"[.!?]++[\"'”’»)\]]*+(?=\s)|[。！？；｡…]++[”’」』）》]*+|\n")
_CLAUSE_END = re.compile(r"[,;:](?=\s)|[，、：]|\s")
_JOINER, _REGIONAL = "\u200d", range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)

Span = tuple[int, int]
"""Start and end of a segment in its text, the end exclusive."""


def spans_of(text: str) -> Iterator[Span]:
    """Yield the spans of a text's segments, without surrounding space; none of a text without letters and digits.

    A segment has at most `MAX_SEGMENT_CHARS` characters. It ends with a sentence, else with a clause or word, else
    anywhere but within a character that a reader sees as one.
    """
    start = 0
    while start < len(text):
        end = len(text) if len(text) - start <= MAX_SEGMENT_CHARS else _end_of(text, start)
        piece = text[start:end]
        if any(map(str.isalnum, piece)):
            yield start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
        start = end


def _end_of(text: str, start: int) -> int:
    least, most = start + MIN_CUT_CHARS, start + MAX_SEGMENT_CHARS
    for pattern in (_SENTENCE_END, _CLAUSE_END):
        # One character more is looked at: it says whether a sentence is over.
        ends = [found.end() for found in pattern.finditer(text, least, most + 1) if found.end() <= most]
        if ends and not _joins(text, ends[-1]):
            return ends[-1]
    return next((at for at in range(most, least, -1) if not _joins(text, at)), most - _splits_pair(text, most))


def _joins(text: str, at: int) -> bool:
    """Whether the text before and behind this position is one character to a reader."""
    behind = text[at]
    return (
        unicodedata.category(behind)[0] == "M"
        or _JOINER in (behind, text[at - 1])
        or ord(behind) in _SKIN_TONES
        or (ord(behind) in _REGIONAL and ord(text[at - 1]) in _REGIONAL)
        or _splits_pair(text, at)
    )


def _splits_pair(text: str, at: int) -> bool:
    """Whether this position splits a surrogate pair."""
    return "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"


MOST_OF_TEXT = 192
"""Segments of one text: a user's longest message has no more. The rest is in the record, and not searched."""
MOST_OF_TASK = 4_096
"""Segments of one task; the rest is in the record, and not searched."""


@immutable
class Segment:
    """A piece of what was said in a task."""

    id: str
    """A UUID."""
    anchor: Anchor
    text: str
    speaker: str
    holder: str | None
    """Holder of the segment (`Owner.holder`); None: all users of the tenant share it."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Position among the segments of its task: message, part, first character."""
        return self.anchor.position, self.anchor.part, self.anchor.start


def segments_of(tenant: str, task_id: str, messages: Sequence[Mapping[str, Any]], begin: int = 0) -> list[Segment]:
    """Return the segments in the order of the transcript, from the message at ``begin`` on.

    ``messages`` is the transcript as records have it.
    """
    found = (segment for passage in passages_of(messages, begin) for segment in _pieces(tenant, task_id, passage))
    return list(islice(found, MOST_OF_TASK))


def _pieces(tenant: str, task_id: str, passage: Passage) -> Iterator[Segment]:
    for number, (start, end) in enumerate(islice(spans_of(passage.text), MOST_OF_TEXT)):
        quote = passage.text[start:end]
        anchor = Anchor(
            task_id=task_id,
            step=passage.step,
            position=passage.position,
            part=passage.part,
            segment=number,
            start=start,
            end=end,
            type=passage.type,
            at=passage.at,
            quote=quote_digest(quote),
        )
        yield Segment(segment_id(tenant, anchor), anchor, quote, passage.speaker, passage.holder)
