"""Joins one text of a streamed answer from its pieces, whatever its server does to them. Pure.

A server may cut a character in two, or send with each piece all that it sent before.
"""

from __future__ import annotations

import re

_HALF = re.compile("[\ud800-\udfff]")
_LAST_HALF = re.compile("[\ud800-\udbff]$")
_LOST = "?"
"""Stands for a half whose other half never came: no text that is kept or sent may hold a half."""
_BYTES = re.compile("[\udc80-\udcff]+")
"""Bytes of a character in UTF-8, as Python's `surrogateescape` writes those that it cannot read."""
_MAX_HELD_BYTES = 3
"""Bytes that may wait for the rest of their character: one has four at most."""
_SURE_CHARS = 12
"""Characters of a piece from which on it is sure that each piece repeats those before it."""
_SURE_OPENING = 16
"""Characters of a first piece that do not stand at the beginning of the second one by chance."""


def has_half(text: object) -> bool:
    """Whether this is a text with half a character in it."""
    return isinstance(text, str) and not text.isascii() and _HALF.search(text) is not None


class CharacterJoiner:
    """Joins the characters of one text that were cut, half in one piece of it and half in the next.

    JSON writes a character beyond U+FFFF as two escapes, and a server that counts in them may cut its text between the
    two. A server that counts in bytes may cut any character beyond U+007F.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""
        """Half a character that waits for the next piece."""

    def add(self, piece: str) -> str:
        """Return the piece with its characters whole; half a character at its end waits for the next piece."""
        if self.held:
            piece, self.held = self.held + piece, ""
        if not has_half(piece):
            return piece
        if _LAST_HALF.search(piece):
            piece, self.held = piece[:-1], piece[-1]
        piece = _BYTES.sub(
            self._characters, piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        )
        return _HALF.sub(_LOST, piece)

    def rest(self) -> str:
        """Return what stands for a half that still waits, at the end of the text."""
        held, self.held = self.held, ""
        return _LOST if held else ""

    def _characters(self, found: re.Match[str]) -> str:
        """Return the characters of bytes; those at the end of the piece may be the first ones of a character."""
        data = found[0].encode("utf-8", "surrogateescape")
        if found.end() == len(found.string):
            for size in range(1, _MAX_HELD_BYTES + 1):
                if _is_beginning(data[-size:]):
                    self.held = data[-size:].decode("utf-8", "surrogateescape")
                    data = data[:-size]
                    break
        return data.decode("utf-8", "surrogateescape")


def whole_characters(text: str) -> str:
    """Return a text whose pieces have been put together, with its characters whole."""
    joiner = CharacterJoiner()
    return joiner.add(text) + joiner.rest()


def _is_beginning(data: bytes) -> bool:
    """Whether these are the first bytes of one character, and not all of them."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start == 0 and error.reason == "unexpected end of data"
    return False


class AnswerText:
    """Joins one text of an answer, and tells of each piece what of it is new.

    Some servers send with each piece all that they sent before. Two pieces may begin alike by chance, so the second
    waits for the third where it begins with the first. Three pieces do not, nor does a long one.
    """

    __slots__ = ("_characters", "_plain", "_waiting", "_whole")

    def __init__(self) -> None:
        self._characters = CharacterJoiner()
        self._plain = False
        """Whether pieces are what they seem: each is new."""
        self._whole: str | None = None
        """The text so far of a server that repeats it; None while it is not known as one."""
        self._waiting: list[str] = []
        """Pieces that begin with the ones before them, as long as that may be chance; the first one is passed on."""

    def add(self, piece: str) -> str:
        """Return what of this piece is new, with its characters whole; some of it may come with the next piece."""
        text = self._characters.add(piece)
        return text if self._plain or not text else self._new(text)

    def rest(self) -> str:
        """Return what still waits, at the end of the text."""
        waiting, self._waiting, self._plain = self._waiting, [], True
        repeated = len(waiting) > 2 or (len(waiting) > 1 and len(waiting[0]) >= _SURE_OPENING)
        held = waiting[-1][len(waiting[0]) :] if repeated else "".join(waiting[1:])
        return held + self._characters.rest()

    def _new(self, text: str) -> str:
        if self._whole is not None:
            if text.startswith(self._whole):
                new, self._whole = text[len(self._whole) :], text
                return new
            self._plain = True
            return text
        waiting = self._waiting
        if not waiting:
            waiting.append(text)
            return text
        if not text.startswith(waiting[-1]) or (len(waiting) == 1 and len(text) == len(waiting[0])):
            self._plain, self._waiting = True, []
            return "".join(waiting[1:]) + text
        waiting.append(text)
        if len(waiting) > 2 and len(text) >= _SURE_CHARS:
            self._whole, self._waiting = text, []
            return text[len(waiting[0]) :]
        return ""
