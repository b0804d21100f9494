"""Patterns for texts of any script that cost little where the text is plain ASCII."""

import re


class AnyScript:
    """A pattern to be looked for. ``latin``: what a text in ASCII can match; ``others``: alternatives to it.

    Most messages are ASCII. Without the classes of characters that others need, looking costs them a fraction.
    ``at_start``: it is looked for at the text's start alone.
    """

    __slots__ = ("_in_any", "_in_ascii")

    def __init__(self, latin: str, others: str, *, at_start: bool = False) -> None:
        in_ascii, in_any = re.compile(latin, re.ASCII), re.compile(f"{latin}|{others}")
        self._in_ascii, self._in_any = (p.match if at_start else p.search for p in (in_ascii, in_any))

    def is_in(self, text: str) -> bool:
        """Whether it is in the text."""
        return (self._in_ascii if text.isascii() else self._in_any)(text) is not None
