"""How far apart children are started."""

_FIRST_S = 0.1
_MAX_DELAY_S = 5.0
_QUIET_S = 60.0


class Backoff:
    """Losses that follow each other within a minute keep starts ever further apart.

    The time counts from the last start: a child that has served for longer is replaced at once, and the calls that
    wait for one do not pay for a neighbour that ended it.
    """

    def __init__(self) -> None:
        self._losses = 0
        self._last_loss = 0.0
        self._last_start = float("-inf")

    def lost(self, now: float) -> None:
        """Counts a child that ended by itself or did not start. ``now`` in seconds, of a clock that only grows."""
        self._losses = self._losses + 1 if now - self._last_loss < _QUIET_S else 1
        self._last_loss = now

    def started(self, now: float) -> None:
        """Notes that a child is being started."""
        self._last_start = now

    def delay(self, now: float) -> float:
        """Seconds to wait from ``now`` on before the next start."""
        if self._losses < 2:
            return 0.0
        pause = min(_MAX_DELAY_S, _FIRST_S * 2.0 ** min(self._losses - 2, 10))
        return max(0.0, self._last_start + pause - now)
