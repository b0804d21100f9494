"""Patterns for texts of any script that cost little where the text is plain ASCII."""

import re


class AnyScript:
    """A pattern to be looked for. ``latin``: what a text in ASCII can match; ``others``: alternatives to it.

    Most messages are ASCII. Without the classes of characters that others need, looking costs them a fraction.
    """

    __slots__ = ("_ascii", "_whole")

    def __init__(self, latin: str, others: str) -> None:
        self._ascii = re.compile(latin, re.ASCII)
        self._whole = re.compile(f"{latin}|{others}")

    def is_in(self, text: str) -> bool:
        """Whether it is anywhere in the text."""
        return (self._ascii if text.isascii() else self._whole).search(text) is not None
