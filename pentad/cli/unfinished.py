"""Lines of several speakers that are still being written: whole ones leave, the unfinished ones are drawn anew."""

from pentad.cli.lines import Tag, tagged
from pentad.cli.wrapping import wrapped

_MAX_TAIL = 2_000
"""Characters of an unfinished line that are drawn anew with each that comes; what was before moves up for good."""


class UnfinishedLines:
    """The unfinished line of each speaker."""

    def __init__(self) -> None:
        self._tails: dict[str, tuple[str, Tag]] = {}
        """Unfinished lines by speaker: the text, and the function that returns its label."""

    def put(self, speaker: str, text: str, tag: Tag, columns: int) -> list[str]:
        """Add text of a speaker; return the lines that are whole now."""
        before, _ = self._tails.pop(speaker, ("", tag))
        whole, newline, tail = (before + text).rpartition("\n")
        lines = tagged(whole, tag()).split("\n") if newline else []
        if len(tail) > _MAX_TAIL:
            *rows, tail = wrapped(tail, columns)  # none where colours alone make one row that long
            lines += [tagged(row, tag()) for row in rows]
        if tail:
            self._tails[speaker] = (tail, tag)
        return lines

    def rows(self, columns: int) -> list[str]:
        """Return the rows of a terminal that the unfinished lines take."""
        return [row for text, tag in self._tails.values() for row in wrapped(tagged(text, tag()), columns)]

    def finished(self, columns: int) -> list[str]:
        """End all lines, and return them."""
        ends = [(speaker, tag) for speaker, (text, tag) in self._tails.items() if text]
        return [line for speaker, tag in ends for line in self.put(speaker, "\n", tag, columns)]
