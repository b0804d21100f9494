"""Lines of text as rows of a terminal: cut at spaces, by the columns that characters take."""

import re

from prompt_toolkit.utils import get_cwidth

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_END = "\x1b[0m"
_HANGS = re.compile(r"(?: *(?:[•│] )*)(?:\d{1,3}[.)] )?")
"""The beginning of a line below whose end its further rows begin: indentation, and the mark of a list or a quote."""
_TAB = "    "
_WIDE = 2
_MAX_MARKS = 1_000
"""Characters without a column of their own in one row, as accents: however many come, the row ends some time."""
_NEVER_FIRST = frozenset("，。、；：？！）」』”’》…)]},.;:?!%")
"""Characters with which no row begins."""


class _Row:
    """A row that is being filled."""

    def __init__(self, indent: int) -> None:
        self.parts = [" " * indent] if indent else []
        self.taken = self.indent = indent
        self.marks = 0
        """Characters that take no column."""
        self.cut: int | None = None
        """Number of parts before the place where the row may be cut."""

    @property
    def empty(self) -> bool:
        return self.taken == self.indent


def wrapped(text: str, columns: int) -> list[str]:
    """One line of text as rows of a terminal. Colours go on in the next row.

    A row is cut behind a space, or beside a wide character, for Chinese has no spaces; a word that is longer than a row
    is cut where the row ends.
    """
    pieces = _COLOUR.split(text.replace("\t", _TAB))
    indent = _indent("".join(pieces[::2]), columns)
    rows: list[str] = []
    row, colours = _Row(0), ""
    for place, piece in enumerate(pieces):
        if place % 2:
            row.parts.append(piece)
            colours = "" if piece == _END else colours + piece
            continue
        for character in piece:
            size = get_cwidth(character)
            if row.marks == _MAX_MARKS:
                row.cut = None
                row = _next_row(row, rows, indent, colours, character)
            elif row.taken + size > columns and not row.empty:
                row = _next_row(row, rows, indent, colours, character)
            if character == " " and row.empty and rows:
                continue  # the row was cut at this space
            if size == _WIDE and not row.empty:
                row.cut = len(row.parts)
            row.parts.append(character)
            row.taken += size
            row.marks += size == 0
            if character == " " or (size == _WIDE and character in _NEVER_FIRST):
                row.cut = len(row.parts)
    return [*rows, "".join(row.parts)]


def _next_row(row: _Row, rows: list[str], indent: int, colours: str, character: str) -> _Row:
    """Add the row as far as it may be cut to the rows; return the next one, with what is left of it."""
    wide = get_cwidth(character) == _WIDE and character not in _NEVER_FIRST
    cut = len(row.parts) if character == " " or wide or row.cut is None else row.cut
    head, left = row.parts[:cut], row.parts[cut:]
    open_at_cut = _open(head, colours, left)
    rows.append("".join(head).rstrip(" ") + (_END if open_at_cut else ""))
    after = _Row(indent)
    after.parts += [open_at_cut, *left] if open_at_cut else left
    after.taken += sum(get_cwidth(part) for part in left if not part.startswith("\x1b"))
    return after


def _open(head: list[str], colours: str, left: list[str]) -> str:
    """Return the colours that are open where the head ends; ``colours`` are those open at the end of what is left."""
    if not any(part.startswith("\x1b") for part in left):
        return colours
    found = ""
    for part in head:
        if part.startswith("\x1b"):
            found = "" if part == _END else found + part
    return found


def _indent(line: str, columns: int) -> int:
    mark = _HANGS.match(line)
    taken = sum(map(get_cwidth, mark[0])) if mark is not None else 0
    return taken if taken <= columns // 2 else 0
