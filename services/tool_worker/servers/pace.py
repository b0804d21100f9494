"""How fast a server may speak: the worker's event loop reads for many, and one must not take it all."""

import asyncio
from time import monotonic

_BYTES_PER_S = 32 << 20
_MESSAGES_PER_S = 2_000
_BURST_S = 0.25
"""Seconds' worth that may come at once."""


class Pace:
    """Delays the reading of a server that sends more than its share; it has to wait in its own pipe then."""

    def __init__(self) -> None:
        self._spent_until = 0.0
        """Time until which what was read would have taken."""

    async def keep(self, size: int, messages: int = 1) -> None:
        """Count what was read, and wait while it is too much."""
        now = monotonic()
        cost = max(size / _BYTES_PER_S, messages / _MESSAGES_PER_S)
        self._spent_until = max(self._spent_until, now) + cost
        if (ahead := self._spent_until - now) > _BURST_S:
            await asyncio.sleep(ahead - _BURST_S)
