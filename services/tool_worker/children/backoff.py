"""How long to wait before another child is started."""

_FIRST_S = 0.1
_MOST_S = 5.0
_QUIET_S = 60.0


class Backoff:
    """The first loss costs nothing; those that follow within a minute cost more each time."""

    def __init__(self) -> None:
        self._losses = 0
        self._last = 0.0

    def lost(self, now: float) -> None:
        """Counts a child that ended by itself or did not start. ``now`` in seconds, of a clock that only grows."""
        self._losses = self._losses + 1 if now - self._last < _QUIET_S else 1
        self._last = now

    def delay(self, now: float) -> float:
        """Seconds to wait from ``now`` on."""
        if self._losses < 2:
            return 0.0
        pause = min(_MOST_S, _FIRST_S * 2.0 ** min(self._losses - 2, 10))
        return max(0.0, self._last + pause - now)
