"""The schedules of a chaos run, of each kind, and a tool whose ledger says for which due times it ran."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pentad.contracts.ids import milliseconds, rfc3339
from tests.support.chaos.ledger import Ledger
from tests.support.chaos.plan import Model

QUEUE_SESSION = "due-queue"
"""Session of the runs that wait for one another."""
MAX_CATCH_UP = 24
TOOL = "slow_due"
_FIRST_NUMBER = 200_000
"""Number of the first schedule's work in the run; those of tasks and erasers are smaller."""
_KEPT_RUNS = 80
"""Runs of one schedule at most, fewer than its history keeps."""
_SHORT_MS, _LONG_MS = 200, 3000
_FIRST_AT_S, _AT_GROWTH, _MAX_ATS = 3.0, 1.7, 8


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule of the run. ``number``: the number of its work; ``tool_ms``: how long a run's tool call takes."""

    number: int
    tool_ms: int
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["schedule_id"])

    @property
    def overlap(self) -> str:
        return str(self.body.get("overlap", "skip"))

    @property
    def _period_ms(self) -> int:
        return int(self.body["every"]) * 1000 if "every" in self.body else 60_000

    def is_due(self, at: int, created: int) -> bool:
        """Return whether a time is one of its due times. ``created``: when it was made."""
        if "every" in self.body:
            return (at - created) % self._period_ms == 0
        if "cron" in self.body:
            return at % 60_000 == 0
        return at == milliseconds(str(self.body["at"]))

    def due_times(self, first: int, last: int, created: int) -> list[int]:
        """Return its due times from one time to another, which may lie before it was made: the clock may step back."""
        if "at" in self.body:
            return [at for at in (milliseconds(self.body["at"]),) if first <= at <= last]
        period, begin = self._period_ms, created if "every" in self.body else 0
        return list(range(first + (begin - first) % period, last + 1, period))


@dataclass(frozen=True, slots=True)
class TimedRuns:
    """What a schedule has come to."""

    timed: Timed
    created: int
    paused: int
    """When it was paused in the end."""
    runs: Sequence[Mapping[str, Any]]
    """Its history, the earliest first."""
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """When its tool started, by the due time for which it did."""


def timetable(now: int, limit_s: float, tool_ms: int) -> list[Timed]:
    """Return the schedules of a run of at most so many seconds. ``tool_ms``: as long as the tools of tasks take."""
    every, long_ms = max(3, round(limit_s / _KEPT_RUNS)), min(_LONG_MS, 2 * tool_ms)
    ats = [_FIRST_AT_S * _AT_GROWTH**n for n in range(_MAX_ATS)]
    queued: dict[str, Any] = {"every": every, "overlap": "queue", "catch_up": MAX_CATCH_UP, "session_id": QUEUE_SESSION}
    bodies: list[tuple[str, int, dict[str, Any]]] = [
        ("queue", _SHORT_MS, queued),
        ("skip", long_ms, {"every": every + 1, "overlap": "skip"}),
        ("cancel", long_ms, {"every": every + 2, "overlap": "cancel", "session_id": "due-cancel"}),
        ("cron", _SHORT_MS, {"cron": "* * * * *", "overlap": "queue", "catch_up": MAX_CATCH_UP}),
        *((f"at-{n}", _SHORT_MS, {"at": rfc3339(now + round(s * 1000))}) for n, s in enumerate(ats) if s < limit_s),
    ]
    return [
        Timed(_FIRST_NUMBER + n, ms, {"schedule_id": name, "content": f"It is time for {name}.", **body})
        for n, (name, ms, body) in enumerate(bodies)
    ]


def teach(model: Model, timed: Sequence[Timed]) -> None:
    """Have the model call the tool once in each run."""
    for each in timed:
        model.plan(each.body["content"], each.number, [[(TOOL, {"ms": each.tool_ms, "tag": f"{each.number}.0"})]])


def starts_of(ledger: Ledger) -> dict[str, dict[str, list[float]]]:
    """Return when the tool started, by schedule and due time."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in ledger.lines():
        if line.word == "start" and "@" in line.tag:
            _, name, due = line.tag.split("@")
            found[name][due].append(line.at)
    return found
