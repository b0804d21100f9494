"""What a commit counts: collected while it is written, applied by its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.state.keys import DAY_S

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

_OLDEST_MS = 365 * DAY_S * 1000
"""A time further back than this is none: a producer may give its entries any id."""


class Tallies:
    """Counts and times of one commit. Nothing is counted of a commit that is refused, and all of it once."""

    def __init__(self) -> None:
        self._always: list[Callable[[int], None]] = []
        self._at_end: list[Callable[[int], None]] = []
        """What belongs to an end, and is left out with it."""
        self._adding = self._always

    def finish(self) -> None:
        """What is added from here on belongs to the end."""
        self._adding = self._at_end

    def count(self, counter: Counter, amount: float = 1) -> None:
        """Count something that the commit does."""
        self._adding.append(lambda _: counter.inc(amount))

    def measure(self, histogram: Histogram, since_ms: int) -> None:
        """Observe the seconds from then to the commit, by the server's clock."""

        self._adding.append(lambda now: _observe(histogram, since_ms, now))

    def observe_between(self, histogram: Histogram, since_ms: int, until_ms: int) -> None:
        """Observe the seconds between two times that are known before the commit."""
        self._adding.append(lambda _: _observe(histogram, since_ms, until_ms))

    def apply(self, now: int, ended: bool) -> None:
        """The commit is in since ``now``, by the server's clock. ``ended``: with its end, if it has one. Only once."""
        done = [*self._always, *self._at_end] if ended else self._always.copy()
        self._always.clear()
        self._at_end.clear()
        for tally in done:
            tally(now)


def _observe(histogram: Histogram, since_ms: int, until_ms: int) -> None:
    if 0 <= until_ms - since_ms <= _OLDEST_MS:
        histogram.observe((until_ms - since_ms) / 1000)
