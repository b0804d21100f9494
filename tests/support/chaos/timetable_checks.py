"""Checks of a chaos run's schedules: each due time has one run, which did its work once; none is left out. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pentad.contracts.ids import milliseconds
from tests.support.chaos.deliveries import Held
from tests.support.chaos.timetable import MAX_CATCH_UP, TimedRuns

_PAUSE_MS = 10_000
"""Milliseconds before its pause in which nobody may have looked at a schedule: these due times fall into the pause."""
_KEPT_RUNS = 100
"""Ended runs that a history keeps."""
_REASONS = {"queue": "runs wait already", "skip": "went on", "cancel": "overtaken by"}
_REASONS_OF_ALL = ("the schedule was paused", "runs wait already")
Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunCount:
    """The figures of the scorecard."""

    schedules: int = 0
    statuses: Counter[str] | None = None
    worked: int = 0
    """Number of due times for which the tool ran."""
    undone: int = 0
    """Number of times that it ran again because a new primary lacked its start."""
    faults: tuple[str, ...] = ()

    def line(self) -> str:
        """The figures in one line."""
        each = ", ".join(f"{status} {n}" for status, n in sorted((self.statuses or Counter()).items()))
        return (
            f"schedules {self.schedules}: due times {each}; worked for {self.worked}, again after a failover that "
            f"undid it {self.undone}"
        )


def runs_counted(
    found: Sequence[TimedRuns], held: Held, lost_between: Callable[[float, float], bool], *, late: bool
) -> RunCount:
    """Return the figures with each fault in words.

    ``lost_between``: whether a failover may have undone what was done at the first time before the second. ``late``:
    whether due times may have been missed, because clocks stepped, disks were full or the machine stalled.
    """
    faults = [f"schedule {each.timed.name}: {fault}" for each in found for fault in _faults(each, held, late)]
    again = 0
    for each in found:
        for due, starts in each.starts.items():
            again += len(starts) - 1
            if not all(lost_between(*pair) for pair in pairwise(starts)):
                faults.append(f"schedule {each.timed.name}: worked {len(starts)} times for {due}")
    statuses = Counter(run["status"] for each in found for run in each.runs)
    return RunCount(len(found), statuses, sum(len(each.starts) for each in found), again, tuple(faults))


def _faults(of: TimedRuns, held: Held, late: bool) -> Iterator[str]:
    yield from _times(of, late)
    yield from _caught_up(of)
    for run in of.runs:
        yield from _outcome(of, run)
        if "message_id" in run:
            yield from _turn(of, run, held.get(run["session_id"], ()))
    yield from _nobodys(of, held)


def _times(of: TimedRuns, late: bool) -> Iterator[str]:
    """Check that each due time is there once, and nothing else."""
    for due, count in Counter(run["due_at"] for run in of.runs).items():
        if count > 1:
            yield f"{due} is there {count} times"
        if not of.timed.is_due(milliseconds(due), of.created):
            yield f"{due} is no due time"
    missed = [(milliseconds(r["due_at"]), milliseconds(r.get("until") or r["due_at"])) for r in _missed(of)]
    if missed and not late:
        yield f"missed though nobody was away: {_missed(of)}"
    there = {milliseconds(run["due_at"]) for run in of.runs}
    first = min(there, default=0) if len(of.runs) >= _KEPT_RUNS else of.created + 1
    for due in of.timed.due_times(first, of.paused - _PAUSE_MS, of.created):
        if due not in there and not any(begin <= due <= end for begin, end in missed):
            yield f"nothing is known of the due time {due}"


def _missed(of: TimedRuns) -> list[Run]:
    return [run for run in of.runs if run["status"] == "missed"]


def _caught_up(of: TimedRuns) -> Iterator[str]:
    """Check that as many of the latest due times were made up for as was asked for, behind those that were missed."""
    if "at" in of.timed.body and _missed(of):
        yield "its only due time was missed, and not made up for"
    if of.timed.body.get("catch_up") != MAX_CATCH_UP:
        return
    ran = {milliseconds(run["due_at"]) for run in of.runs if run["status"] != "missed"}
    for missed in _missed(of):
        end = milliseconds(missed.get("until") or missed["due_at"])
        following = of.timed.due_times(end + 1, of.paused - _PAUSE_MS, of.created)[:MAX_CATCH_UP]
        if left := [due for due in following if due not in ran]:
            yield f"{left} were not made up for behind {missed}"


def _outcome(of: TimedRuns, run: Run) -> Iterator[str]:
    """Check that a run has ended well, or says why there was none."""
    status, reason = run["status"], run.get("reason") or ""
    if status == "skipped":
        if not any(words in reason for words in (*_REASONS_OF_ALL, _REASONS[of.timed.overlap])):
            yield f"skipped for no good reason: {run}"
    elif status not in ("completed", "missed") and not (status == "cancelled" and of.timed.overlap == "cancel"):
        yield f"ended in another way: {run}"


def _turn(of: TimedRuns, run: Run, events: Sequence[Run]) -> Iterator[str]:
    """Check that a run is one message and one task, whose tool did its work unless its worker died."""
    routed = [e for e in events if e["type"] == "message_routed" and e["message_id"] == run["message_id"]]
    tasks = {event["task_id"] for event in routed}
    counts = Counter(event["type"] for event in events if event.get("task_id") in tasks)
    told = {"message_routed": len(routed), "task_start": counts["task_start"], "task_end": counts["task_end"]}
    if set(told.values()) != {1} or tasks != {run.get("task_id")}:
        yield f"the run {run} has in its session {told}, tasks {tasks}"
    failed = any(e["type"] == "tool_result" and e.get("error") and e["task_id"] in tasks for e in events)
    if run["status"] == "completed" and not of.starts.get(run["due_at"]) and not failed:
        yield f"the run {run} has done no work"


def _nobodys(of: TimedRuns, held: Held) -> Iterator[str]:
    """Check that nothing was said or done for what is no due time of the history.

    A failover may undo that a run was sent just when its message goes to the new primary, whose history then says that
    it was skipped: it has run once all the same.
    """
    ran = {run["due_at"] for run in of.runs}
    known = {f"{of.timed.name}.{_in_id(due)}" for due in ran}
    forgotten = min(ran, default="") if len(of.runs) >= _KEPT_RUNS else ""
    for event in (event for events in held.values() for event in events if event["type"] == "message_routed"):
        name, _, due = event["message_id"].partition(".")
        if name == of.timed.name and event["message_id"] not in known and due >= _in_id(forgotten):
            yield f"a message of no run: {event}"
    for due in of.starts:
        if due not in ran and due >= forgotten:
            yield f"worked for {due}, which has no run"


def _in_id(due: str) -> str:
    """Return a due time as the ids of messages have it."""
    return due.replace("-", "").replace(":", "")
