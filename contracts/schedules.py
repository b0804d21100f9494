"""Schedules: messages that are sent at times which were told beforehand, and the runs that have come of them."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import ExternalId, Identifier
from pentad.contracts.turns import Outcome

MAX_SCHEDULED_CONTENT = 32_768
"""Characters that the message of a schedule may have."""
MAX_CATCH_UP = 24
"""Due times in the past that a schedule makes up for at most."""
MAX_EVERY_S = 366 * 86_400
"""Seconds that may lie between two due times of ``every``."""
Overlap = Literal["skip", "queue", "cancel"]
ScheduleId = Annotated[Identifier, StringConstraints(max_length=64)]
"""Id of a schedule: the ids of its messages begin with it."""
ScheduleStatus = Literal["active", "paused", "ended"]
RunStatus = Literal["planned", "sending", "accepted", "running", "skipped", "missed", "unknown"] | Outcome


class ScheduleSpec(Contract):
    """The request of a client: when a message is due, its text, and how due times that collide are handled."""

    model_config = ConfigDict(extra="forbid")

    schedule_id: ScheduleId | None = None
    """Id of the client's own: asked for twice, it is one schedule. Made where it is left out."""
    cron: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Five fields: minute, hour, day of the month, month, day of the week."""
    every: Annotated[int, Field(ge=1, le=MAX_EVERY_S)] | None = None
    """Seconds between two due times, counted from when the schedule was made."""
    at: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The only due time: RFC 3339, or without its offset, ``2030-01-31T09:00``, in the time zone."""
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "UTC"
    """IANA name of the time zone of ``cron`` and ``at``."""
    content: str = Field(min_length=1, max_length=MAX_SCHEDULED_CONTENT)
    session_id: ExternalId | None = None
    """The session in which every run is a task of its own; without it, each run has a session of its own."""
    user_id: ExternalId | None = None
    instruction: Identifier | None = None
    overlap: Overlap = "skip"
    """The fate of a due time while the run before it goes on: it is skipped, it waits, or it cancels that run."""
    catch_up: Annotated[int, Field(ge=0, le=MAX_CATCH_UP)] = 1
    """Due times that are made up for when nobody could send them in time, the latest ones; all others are missed."""

    @model_validator(mode="after")
    def _has_one_clock(self) -> Self:
        if sum(each is not None for each in (self.cron, self.every, self.at)) != 1:
            raise ValueError("a schedule has one of cron, every and at")
        return self


class ScheduleRun(Contract):
    """The run of one due time, or the reason why it has none."""

    due_at: str
    until: str | None = None
    """The last due time of several that were missed together."""
    status: RunStatus
    """``planned``: it waits for the run before it. ``sending``, ``accepted``, ``running``: it is on its way, waits to
    be routed, its task works. ``skipped``, ``missed``: it was not sent. ``unknown``: nobody knows whether it was sent.
    Any other is the end of its turn, as ``GET /v1/runs/{message_id}`` tells it."""
    reason: str = ""
    message_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    sent_at: str | None = None
    ended_at: str | None = None


class Schedule(ScheduleSpec):
    """A schedule as it stands."""

    model_config = ConfigDict(extra="ignore")

    schedule_id: ScheduleId
    created_at: str
    status: ScheduleStatus
    next_at: str | None = None
    """The next due time; absent while the schedule is paused and after its end."""
    last: ScheduleRun | None = None
    """The run of the latest due time."""
    tenant_id: str | None = None
    """Tenant of the schedule; in the list of all tenants alone."""
