"""Tells the thoughts that a model writes into its answer, between <think> and </think>, from the answer itself."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_BLANKS = 1_000
"""Characters of white space that may stand before the first tag."""
Part = tuple[Literal["content", "thinking"], str]


class ThinkTags:
    """Splits one answer as it comes. ``begun``: the first tag stood in the prompt, so the answer begins with thoughts.

    A tag may come in pieces: text that may be the beginning of one is held back until that is known.
    """

    __slots__ = ("_held", "_where")

    def __init__(self, begun: bool) -> None:
        self._held = ""
        self._where: Literal["before", "thinking", "between", "answer"] = "thinking" if begun else "before"

    def split(self, text: str) -> list[Part]:
        """Return the parts of the text that are known by now and were not returned before."""
        if self._where == "answer":
            return [("content", text)]
        self._held += text
        if self._where == "before":
            self._begin()
        return [*self._thoughts(), *self._answer()]

    def rest(self) -> list[Part]:
        """Return the text that was held back, once the answer has ended."""
        held, self._held = self._held, ""
        return [("thinking" if self._where == "thinking" else "content", held)]

    def _begin(self) -> None:
        said = self._held.lstrip()
        if said.startswith(_OPEN):
            self._held, self._where = said.removeprefix(_OPEN), "thinking"
        elif not _OPEN.startswith(said) or len(self._held) > _MAX_BLANKS:
            self._where = "answer"

    def _thoughts(self) -> list[Part]:
        if self._where != "thinking":
            return []
        said, closed, after = self._held.partition(_CLOSE)
        if closed:
            self._held, self._where = after, "between"
            return [("thinking", said)]
        known = len(said) - _begun(said)
        self._held = said[known:]
        return [("thinking", said[:known])]

    def _answer(self) -> list[Part]:
        if self._where == "between":
            self._held = self._held.lstrip()
            if self._held:
                self._where = "answer"
        if self._where != "answer":
            return []
        held, self._held = self._held, ""
        return [("content", held)]


def _begun(text: str) -> int:
    """Return how many of the last characters may be the beginning of the closing tag."""
    return next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
