"""How far a schedule is, as it is kept in Redis."""

from typing import Literal

from pentad.contracts.envelope import Contract
from pentad.contracts.schedules import ScheduleRun, ScheduleStatus


class ScheduleState(Contract):
    """The progress of a schedule. Times are milliseconds since the epoch."""

    version: Literal[1] = 1
    created: int
    status: ScheduleStatus = "active"
    next: int | None = None
    """The next due time."""
    set_at: int
    """When this was written: a time that lies ahead is of a clock that has stepped back since."""
    ended: int | None = None
    runs: tuple[ScheduleRun, ...] = ()
    """The runs of the latest due times, the oldest first."""
