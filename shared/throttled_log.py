"""A log for lines that would repeat as long as an outage lasts: each kind is written at most every ten seconds."""

import logging
from time import monotonic

EVERY_S = 10.0
_MAX_KINDS = 1000
"""Kinds of lines that one log remembers."""


class ThrottledLog:
    """Passes on the first line of each kind, then one every ten seconds, which says how many were left out."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, tuple[float, int]] = {}

    def warning(
        self, kind: str, line: str, *args: object, level: int = logging.WARNING, exc: BaseException | None = None
    ) -> None:
        """Write a line unless one of its kind was written lately."""
        at, left_out = self._said.get(kind, (float("-inf"), 0))
        now = monotonic()
        if now - at < EVERY_S:
            self._said[kind] = (at, left_out + 1)
            return
        if len(self._said) >= _MAX_KINDS:
            self._said.clear()
        self._said[kind] = (now, 0)
        if left_out:
            line += f" ({left_out} more like this since the last)"
        self._log.log(level, line, *args, exc_info=exc)

    def error(self, kind: str, line: str, *args: object, exc: BaseException | None = None) -> None:
        """Write a line as `warning` does, at level ERROR."""
        self.warning(kind, line, *args, level=logging.ERROR, exc=exc)
