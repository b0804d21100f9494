"""Where tasks that speak at the same time write: each has lines of its own, and no line is of two of them."""

from collections.abc import Callable
from typing import Protocol

Tag = Callable[[], str]
"""Returns the label before a speaker's lines at the moment; empty: no label."""


class Out(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Lines(Protocol):
    """Takes text of several speakers."""

    def put(self, speaker: str, text: str, tag: Tag) -> None:
        """Text that goes on where this speaker was; ``tag`` gives what stands before each of its lines."""


class Speaker:
    """One task's place to write to."""

    def __init__(self, lines: Lines, name: str, tag: Tag) -> None:
        self._lines, self._name, self._tag = lines, name, tag

    def write(self, text: str) -> None:
        self._lines.put(self._name, text, self._tag)

    def flush(self) -> None:
        """Write everything that may be shown now."""


class PlainLines:
    """A stream that only grows: one speaker's line may stand unfinished, the others' wait until they are whole."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._front: str | None = None
        """The speaker whose line is unfinished."""
        self._waiting: dict[str, list[str]] = {}
        """Pieces of the other speakers' unfinished lines: joined once, for a model may write a long line letter by
        letter."""

    def put(self, speaker: str, text: str, tag: Tag) -> None:
        """See ``Lines``."""
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._whole(speaker, self._waited(speaker) + whole, tag())
        if rest:
            self._part(speaker, rest, tag())
        self._out.flush()

    def _whole(self, speaker: str, text: str, tag: str) -> None:
        if self._front == speaker:
            first, newline, text = text.partition("\n")
            self._out.write(first + "\n")
            self._front = None
            if not newline:
                return
        elif self._front is not None:
            self._out.write("\n")
            self._front = None
        self._out.write(tagged(text, tag) + "\n")

    def _part(self, speaker: str, text: str, tag: str) -> None:
        if self._front == speaker:
            self._out.write(text)
        elif self._front is None:
            self._front = speaker
            self._out.write(tagged(self._waited(speaker) + text, tag))
        else:
            self._waiting.setdefault(speaker, []).append(text)

    def _waited(self, speaker: str) -> str:
        return "".join(self._waiting.pop(speaker, ()))


def tagged(text: str, tag: str) -> str:
    """The text with the tag before each of its lines; empty ones stay empty."""
    return "\n".join(f"{tag} {line}" if tag and line else line for line in text.split("\n"))
