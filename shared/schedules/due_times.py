"""Due times of schedules: when the next one is, which ones have passed, and whether there are any. Pure.

A cron expression goes by the clock on the wall, as Debian's cron does: a fixed time in the hour that the change to
summer time leaves out is due right behind the gap, and one in an hour that comes twice is due the first time. What is
due each hour or each few minutes goes on through both. ``every`` counts seconds, and knows no clock on the wall.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from cronsim import CronSim, CronSimError

from pentad.contracts.dates import zone_of
from pentad.contracts.ids import milliseconds
from pentad.contracts.schedules import ScheduleSpec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HORIZON_MS = 10 * 366 * 86_400_000
"""Milliseconds ahead of which nothing is due."""
_CRON_FIELDS = 5
_MAX_ATTEMPTS = 1_500
"""Due times that are passed over at most in search of one: an hour that comes twice has far fewer."""
_PERIODS = 50
"""Due times between which the shortest period is looked for."""
_FIRST_SPAN_MS = 3_600_000
"""Milliseconds of the past in which due times are looked for first."""
_NOTHING_DUE = "nothing is due within ten years"
_MAX_LATENESS_MS = 60_000
"""Milliseconds by which the only due time of a new schedule may have passed."""


class DueTimes:
    """The due times of one schedule that was created at this time. Raises ``ValueError`` where it has none."""

    def __init__(self, spec: ScheduleSpec, created: int) -> None:
        self._created, self._every = created, None if spec.every is None else spec.every * 1000
        self._zone, self._cron = zone_of(spec.time_zone), spec.cron
        self.only = None if spec.at is None else _moment(spec.at, self._zone)
        """The due time of a schedule that has a single one."""
        if spec.cron is not None:
            _check_cron(spec.cron)

    def after(self, moment: int) -> int | None:
        """Return the first due time after a moment; None where there is none within ten years."""
        if self.only is not None:
            return self.only if self.only > moment else None
        if self._every is not None:
            return moment + self._every - (moment - self._created) % self._every
        return _next_of_cron(self._cron or "", self._zone, moment)

    def passed(self, first: int, now: int, most: int) -> list[int]:
        """Return the latest due times from ``first`` until now, the oldest first: all, or more than ``most`` of them.

        ``first`` was computed before: it is one, also where the rules of its time zone have changed since.
        """
        if first > now:
            return []
        span = max(_FIRST_SPAN_MS, 0 if self._every is None else (most + 1) * self._every)
        while True:
            begin = max(first, now - span)
            found = [first] if begin == first else list[int]()
            due = self.after(begin)
            while due is not None and due <= now:
                found.append(due)
                due = self.after(due)
            if len(found) > most or begin == first:
                return found
            span *= 4

    def check(self, now: int, shortest_ms: int) -> int:
        """Return the first due time of a new schedule. Raises ``ValueError`` if nothing is due, or too often."""
        first = self.after(now - (_MAX_LATENESS_MS if self.only is not None else 0))
        if first is None:
            raise ValueError("at: the time has passed" if self.only is not None else _NOTHING_DUE)
        if first - now > _HORIZON_MS:
            raise ValueError(_NOTHING_DUE)
        period = self._shortest_period(first)
        if period is not None and period < shortest_ms:
            raise ValueError(f"due times are {period / 1000:g} s apart, and must be {shortest_ms / 1000:g} s or more")
        return first

    def _shortest_period(self, first: int) -> int | None:
        if self._every is not None:
            return self._every
        periods, due = list[int](), first
        for _ in range(_PERIODS):
            following = self.after(due)
            if following is None:
                break
            periods.append(following - due)
            due = following
        return min(periods, default=None)


def _check_cron(expression: str) -> None:
    """Raise ``ValueError`` for what is no expression of five fields."""
    if len(expression.split()) != _CRON_FIELDS:
        raise ValueError("cron: five fields are expected: minute, hour, day of the month, month, day of the week")
    try:
        CronSim(expression, _EPOCH)
    except CronSimError as error:
        raise ValueError(f"cron: {error}: write it as in `30 9 * * MON-FRI`") from None
    except (AssertionError, ValueError, IndexError, OverflowError, RecursionError):
        raise ValueError("cron: it cannot be read: write it as in `30 9 * * MON-FRI`") from None


@lru_cache(maxsize=1024)
def _next_of_cron(expression: str, zone: tzinfo, moment: int) -> int | None:
    """Return the first due time of an expression after a moment; None where it has none within ten years.

    The library goes by the clock on the wall, which passes an hour twice at the end of summer time: what it finds there
    may lie before the moment.
    """
    try:
        start = (_EPOCH + moment * _MILLISECOND).astimezone(zone)
        times = CronSim(expression, start)
        for _ in range(_MAX_ATTEMPTS):
            found = next(times, None)
            if found is None:
                return None
            due = (found.astimezone(UTC) - _EPOCH) // _MILLISECOND
            if due > moment:
                return due if due - moment <= _HORIZON_MS else None
    except OverflowError:  # behind the year 9999
        pass
    return None


def _moment(text: str, zone: tzinfo) -> int:
    """Return a time in milliseconds since the epoch; one without an offset is of this zone. Raises ``ValueError``.

    A time that a change of clocks leaves out is as long behind it as it would have been; of one that comes twice it is
    the first.
    """
    try:
        return milliseconds(text)
    except ValueError as error:
        problem = error
    try:
        local = datetime.fromisoformat(text)
        if local.tzinfo is None and len(text) > len("2030-01-31"):
            return (local.replace(tzinfo=zone).astimezone(UTC) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"at: {problem}, or without Z in the time_zone")
