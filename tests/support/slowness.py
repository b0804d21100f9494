"""How slow this machine is just now, so that bounds of time hold on slow and on busy ones."""

import re
from time import thread_time

_REFERENCE = re.compile("[x\x7f-\x9f]")
_TEXT = "a" * (1 << 20)
_QUIET_S = 0.004
"""What a search of the text takes on the machine that the bounds were set on."""


def slowness() -> float:
    """The seconds that work takes here for each second on a quiet machine; 1.0 at least."""
    return max(1.0, min(_seconds() for _ in range(3)) / _QUIET_S)


def _seconds() -> float:
    begun = thread_time()
    _REFERENCE.search(_TEXT)
    return thread_time() - begun
