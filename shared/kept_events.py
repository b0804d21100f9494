"""How much a session's event stream keeps. Pure."""

SMALL_EVENT = 4096
"""Bytes of an event that counts as one of ``PENTAD_EVENTS_MAXLEN``: together they may have that many times these."""


def most_events(maxlen: int, size: int) -> int:
    """How many events are kept once one of ``size`` bytes is added: fewer, the larger it is, and always that one."""
    return maxlen if size <= SMALL_EVENT else 1 + maxlen * SMALL_EVENT // size
