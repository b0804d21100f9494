"""The circuit breaker of one model: a model that keeps failing is left alone for a while. No I/O; time is passed in.

closed   every call goes through; 3 failures in a row, or 5 among the last 20 calls, open it
open     nothing is asked until its time is up: as long as the server asks for, 60 s at most, 600 s where a limit of its
         is reached, which opens it at once; where it does not say,
         1 s at first, doubled by each probe that fails, 30 s at most
probing  one call goes through and decides
"""

from __future__ import annotations

from pentad.contracts.models import ModelState

IN_A_ROW, FAILURES, CALLS = 3, 5, 20
_MIN_PAUSE_S, _MAX_PAUSE_S = 1.0, 30.0
_MAX_ASKED_S = 60.0
"""The longest pause, in seconds, for which a server may ask."""
_MAX_LIMITED_S = 600.0
"""The longest pause, in seconds, for which a server may ask whose limit is reached: it knows when it answers again."""
_MAX_AGE_S = 600.0
"""Seconds after which calls no longer count."""
_MASK, _ROW_MASK = (1 << CALLS) - 1, (1 << IN_A_ROW) - 1


class Circuit:
    """The state of one model in one process. Times are seconds of a clock that never steps back."""

    def __init__(self, now: float) -> None:
        self._history = 0
        """The last calls, a bit for each, the newest lowest; 1 for a call that failed."""
        self._failed_at = now
        self._pause_s = _MIN_PAUSE_S
        self._until: float | None = None
        """When the model may be probed; None when the circuit is closed."""
        self._probing = False
        self.since = now
        """When the state became what it is: well, failing, or down."""
        self.hopeless = False
        """Whether the circuit was opened by a failure that only a person can mend."""
        self.error: str | None = None
        """The text of the last failure."""
        self._stated: float | None = None
        """The time until which the server has asked to be left alone, however long that is."""

    @property
    def state(self) -> ModelState:
        """The state of the model, as the registry shows it."""
        if self._until is not None:
            return "probing" if self._probing else "open"
        return "failing" if self._history else "ok"

    @property
    def closed(self) -> bool:
        """Whether the circuit is closed: every call goes through."""
        return self._until is None

    def may_ask(self, now: float) -> bool:
        """Whether a call may go through: any when the circuit is closed, the probe when it is due."""
        return self._until is None or (not self._probing and now >= self._until)

    def left(self, now: float) -> float:
        """Return the seconds until the model may be probed, at least a little: a probe under way is not over yet."""
        return max(_MIN_PAUSE_S / 4, (self._until or now) - now)

    def stated_left(self, now: float) -> float | None:
        """Return the seconds for which the server still asks to be left alone; None when it has not said, or they
        are over."""
        return None if self._stated is None or self._stated <= now else self._stated - now

    def probe(self) -> None:
        """Note that the next call is the probe: until it is over no other goes through."""
        self._probing = True

    def probe_given_up(self) -> None:
        """Note that the probe was not made, or was cancelled: another may be made at once."""
        self._probing = False

    def answered(self, now: float, probe: bool = False) -> None:
        """Note that a call was answered, or its answer has begun. While the circuit is open only the probe counts."""
        if self._until is not None:
            if probe:
                self._until, self._probing, self.since, self._stated = None, False, now, None
                self._history, self._pause_s = 0, _MIN_PAUSE_S
        elif self._history:
            self._history = (self._history << 1) & _MASK
            if not self._history:
                self.since = now

    def failed(
        self,
        now: float,
        error: str,
        *,
        asked_s: float | None = None,
        limited: bool = False,
        hopeless: bool = False,
        probe: bool = False,
    ) -> None:
        """Note that a call failed.

        ``asked_s`` is the number of seconds for which the server asks to be left alone, ``limited`` whether that is
        because a limit is reached. ``hopeless``: other calls will fail in the same way until a person changes
        something. The circuit opens at once where other calls would fail in the same way.
        """
        self.error = error
        self._stated = None if asked_s is None else now + asked_s
        limited = limited and asked_s is not None
        if asked_s is not None:
            asked_s = min(asked_s, _MAX_LIMITED_S if limited else _MAX_ASKED_S)
        if self._until is not None:
            if probe:
                self._open(now, self._pause_s * 2, asked_s, hopeless)
            return
        if now - self._failed_at > _MAX_AGE_S:
            self._history = 0
        if not self._history:
            self.since = now
        self._failed_at = now
        self._history = ((self._history << 1) | 1) & _MASK
        if hopeless or limited or self._history & _ROW_MASK == _ROW_MASK or self._history.bit_count() >= FAILURES:
            self._open(now, self._pause_s, asked_s, hopeless)

    def _open(self, now: float, pause_s: float, asked_s: float | None, hopeless: bool) -> None:
        if self._until is None:
            self.since = now
        self._probing, self.hopeless = False, hopeless
        if asked_s is None:
            self._pause_s = min(_MAX_PAUSE_S, pause_s)
            self._until = now + self._pause_s
        else:
            self._until = now + max(_MIN_PAUSE_S, asked_s)
