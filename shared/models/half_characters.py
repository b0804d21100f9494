"""Characters that a server cut in two, half in one event of its stream and half in the next. Pure.

JSON writes a character beyond U+FFFF as two escapes. A server that counts in them may cut its text between the two.
"""

from __future__ import annotations

import re

_HALF = re.compile("[\ud800-\udfff]")
_FIRST_HALF = re.compile("[\ud800-\udbff]")
_LOST = "?"
"""Stands for a half whose other half never came: no text that is kept or sent may hold a half."""


def has_half(text: object) -> bool:
    """Whether this is a text with half a character in it."""
    return isinstance(text, str) and _HALF.search(text) is not None


class HalfJoiner:
    """Joins the halves of one text that comes in pieces."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Return the piece with its characters whole; a first half at its end waits for the next piece."""
        if self._held:
            piece, self._held = self._held + piece, ""
        if not has_half(piece):
            return piece
        if _FIRST_HALF.match(piece[-1]):
            piece, self._held = piece[:-1], piece[-1]
        return _HALF.sub(_LOST, piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))

    def rest(self) -> str:
        """Return what stands for a half that still waits, at the end of the text."""
        held, self._held = self._held, ""
        return _LOST if held else ""
