"""Counters and histograms that cost a tenth of the library's: one thread counts, so nothing is locked.

A turn counts some seventy times. ``prometheus_client`` shows what they have come to, see `pentad.shared.metrics`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate


class Counter:
    """A count that only grows. Use it in the thread of the event loop only."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add to the count. Raises ``ValueError`` for a negative amount."""
        if amount < 0:
            raise ValueError("a counter only grows")
        self.value += amount


class Histogram:
    """How many values there were up to each of some bounds, and their sum. For the thread of the event loop alone."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        """The number of values in each bucket alone; the last bucket has no bound."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Each bound, the last infinite, and how many values were at most that."""
        return zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True)
