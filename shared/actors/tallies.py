"""What a commit counts: collected while it is written, applied by its outcome."""

from pentad.shared.counting import Counter, Histogram
from pentad.shared.keys import DAY_S

_OLDEST_MS = 365 * DAY_S * 1000
"""A time further back than this is none: a producer may give its entries any id."""


class Tallies:
    """Counts and times of one commit. Nothing is counted of a commit that is refused, and all of it once."""

    def __init__(self) -> None:
        self._counts: list[tuple[Counter, float]] = []
        self._times: list[tuple[Histogram, int, int | None]] = []
        """Each from a time to another, in ms of the server's clock; None is the time of the commit."""
        self._before_end: tuple[int, int] | None = None
        """How many of both do not belong to an end."""

    def finish(self) -> None:
        """What is added from here on belongs to the end, and is left out with it."""
        self._before_end = (len(self._counts), len(self._times))

    def count(self, counter: Counter, amount: float = 1) -> None:
        """Count something that the commit does."""
        self._counts.append((counter, amount))

    def measure(self, histogram: Histogram, since_ms: int, until_ms: int | None = None) -> None:
        """Observe the seconds from then to the commit, by the server's clock, or to another time that is known."""
        self._times.append((histogram, since_ms, until_ms))

    def apply(self, now: int, ended: bool) -> None:
        """The commit is in since ``now``, by the server's clock. ``ended``: with its end, if it has one. Only once."""
        counts, times = self._counts, self._times
        self._counts, self._times = [], []
        if not ended and self._before_end is not None:
            counts, times = counts[: self._before_end[0]], times[: self._before_end[1]]
        for counter, amount in counts:
            counter.inc(amount)
        for histogram, since, until in times:
            spent = (now if until is None else until) - since
            if 0 <= spent <= _OLDEST_MS:
                histogram.observe(spent / 1000)
