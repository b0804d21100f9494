"""A measure of how slow this machine is now, so that time bounds hold on slow and busy machines."""

import re
from time import thread_time

_REFERENCE = re.compile("[x\x7f-\x9f]")
_TEXT = "a" * (1 << 20)
_QUIET_S = 0.004
"""Seconds that a search of the text takes on the machine on which the bounds were set."""


_MAX_SLOWNESS = 6.0
"""Largest factor that a bound is stretched by: time cannot be measured on a machine that is slower still."""


def slowness() -> float:
    """Return the seconds that work takes here for each second on a quiet machine: 1.0 to `_MAX_SLOWNESS`."""
    return min(_MAX_SLOWNESS, max(1.0, min(_seconds() for _ in range(3)) / _QUIET_S))


def _seconds() -> float:
    begun = thread_time()
    _REFERENCE.search(_TEXT)
    return thread_time() - begun
