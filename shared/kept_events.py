"""How much a session's event stream keeps. Pure."""

SMALL_EVENT = 2048
"""Bytes of an event that counts as one of `PENTAD_EVENTS_MAXLEN`."""
KEPT_BYTES = 32 << 20
"""About how many bytes of large events are kept."""


def most_events(maxlen: int, size: int) -> int:
    """How many events are kept once one of ``size`` bytes is added: fewer, the larger it is."""
    return maxlen if size <= SMALL_EVENT else min(maxlen, 1 + KEPT_BYTES // size)
