"""Long texts in pieces of bounded length, cut where a sentence ends."""

import re
import unicodedata
from collections.abc import Iterator

LONGEST = 800
"""Characters of a piece: about 200 English tokens, which an embedding model reads as a whole."""
LEAST = LONGEST // 2
"""A piece that is cut off is at least so long, so that a text has no more than so many pieces."""
_SENTENCE_END = re.compile(r"[.!?]++[\"'”’»)\]]*+(?=\s)|[。！？；｡…]++[”’」』）》]*+|\n")
_CLAUSE_END = re.compile(r"[,;:](?=\s)|[，、：]|\s")
_JOINER, _REGIONAL = "\u200d", range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)

Span = tuple[int, int]
"""Where a piece begins, and where it ends, exclusive."""


def spans_of(text: str) -> Iterator[Span]:
    """The pieces of a text in order, without the space around them; none of a text without letters and digits.

    A piece is at most `LONGEST` characters long. It ends with a sentence, else with a clause or word, else anywhere
    but within a character that a reader sees as one.
    """
    start = 0
    while start < len(text):
        end = len(text) if len(text) - start <= LONGEST else _end_of(text, start)
        piece = text[start:end]
        if any(map(str.isalnum, piece)):
            yield start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
        start = end


def _end_of(text: str, start: int) -> int:
    least, most = start + LEAST, start + LONGEST
    for pattern in (_SENTENCE_END, _CLAUSE_END):
        # One character more is looked at: it says whether a sentence is over.
        ends = [found.end() for found in pattern.finditer(text, least, most + 1) if found.end() <= most]
        if ends and not _joins(text, ends[-1]):
            return ends[-1]
    return next((at for at in range(most, least, -1) if not _joins(text, at)), most - _splits_pair(text, most))


def _joins(text: str, at: int) -> bool:
    """Whether what stands before and behind this place is one character to a reader."""
    behind = text[at]
    return (
        unicodedata.category(behind)[0] == "M"
        or _JOINER in (behind, text[at - 1])
        or ord(behind) in _SKIN_TONES
        or (ord(behind) in _REGIONAL and ord(text[at - 1]) in _REGIONAL)
        or _splits_pair(text, at)
    )


def _splits_pair(text: str, at: int) -> bool:
    """Whether the two halves of a surrogate pair stand here."""
    return "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"
