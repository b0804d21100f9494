"""How a schedule goes on: what is due becomes runs, runs wait for one another, and a schedule ends. Pure."""

from collections.abc import Iterable, Sequence

from pentad.contracts.ids import milliseconds, rfc3339
from pentad.contracts.schedules import MAX_CATCH_UP, RunStatus, Schedule, ScheduleRun, ScheduleSpec
from pentad.shared.immutable import immutable
from pentad.shared.schedules.due_times import DueTimes
from pentad.shared.schedules.schedule_state import ScheduleState

MAX_RUNS = 100
"""Ended runs that a schedule remembers."""
MAX_WAITING_RUNS = MAX_CATCH_UP
"""Runs of one schedule that may wait for one another; later due times are skipped."""
ENDED_KEPT_MS = 30 * 86_400_000
"""Milliseconds for which a schedule that has ended can be looked at."""
_ON_TIME_MS = 60_000
"""Milliseconds after a due time within which its run is no late one."""
_MAX_CLOCK_LEAD_MS = 1_000
"""Milliseconds. What was written further in the future was written before the clock stepped back."""
_FIRST_LOOK_MS, _LAST_LOOK_MS, _WAITED_LOOK_MS = 500, 15_000, 1_000
"""Milliseconds until the next look at a run: at once after it was sent, later, and when another run waits for it."""
_AGE_SHARE = 8
"""A run is looked at again when so much of its age has passed once more."""
_PAUSED = "the schedule was paused"
_WORKING = frozenset({"sending", "accepted", "running"})
_OPEN = _WORKING | {"planned"}


@immutable
class Move:
    """The step that a schedule takes now: the run that is sent, runs that are skipped, and runs that are cancelled."""

    send: ScheduleRun | None = None
    skipped: tuple[ScheduleRun, ...] = ()
    cancel: tuple[ScheduleRun, ...] = ()


def begun(first: int, now: int) -> ScheduleState:
    """Return the state of a new schedule."""
    return ScheduleState(created=now, next=first, set_at=now)


def shown(spec: ScheduleSpec, state: ScheduleState) -> Schedule:
    """Return a schedule as clients see it."""
    due = None if state.next is None else rfc3339(state.next)
    fields = spec.model_dump() | {"created_at": rfc3339(state.created), "status": state.status, "next_at": due}
    return Schedule(**fields, last=state.runs[-1] if state.runs else None)


def planned(spec: ScheduleSpec, state: ScheduleState, now: int) -> ScheduleState:
    """Return the state in which all that is due by now has a run or is missed, and the next due time is known.

    A due time that has had its run before the clock stepped back has none again.
    """
    if state.status != "active" or state.next is None:
        return state
    times, known = DueTimes(spec, state.created), {run.due_at for run in state.runs}
    due = state.next
    if state.set_at > now + _MAX_CLOCK_LEAD_MS and due > now:
        return _with(state, next=_new_after(times, now, known))
    if due > now:
        return state
    found = times.passed(due, now, MAX_CATCH_UP)
    passed = [each for each in found if rfc3339(each) not in known]
    wanted = _wanted(spec, passed, now)
    missed = [*([due] if found[0] != due else []), *(each for each in passed if each not in wanted)]
    runs = [*([_missed(missed)] if missed else []), *_planned_runs(spec, state, wanted)]
    return _with(state, next=_new_after(times, now, known), runs=_kept((*state.runs, *runs)))


def _wanted(spec: ScheduleSpec, passed: Sequence[int], now: int) -> Sequence[int]:
    """Return the due times that get a run: those that are on time, and the late ones that are made up for.

    Where runs do not wait for one another, one run makes up for all.
    """
    late = [due for due in passed if now - due > _ON_TIME_MS]
    on_time = passed[len(late) :]
    count = spec.catch_up if spec.overlap == "queue" else min(spec.catch_up, 0 if on_time else 1)
    return [*late[len(late) - min(count, len(late)) :], *on_time]


def _planned_runs(spec: ScheduleSpec, state: ScheduleState, wanted: Iterable[int]) -> list[ScheduleRun]:
    waiting = sum(run.status == "planned" for run in state.runs)
    runs = list[ScheduleRun]()
    for due in wanted:
        run = _run_of(spec, due)
        if waiting >= MAX_WAITING_RUNS:
            run = _not_sent(run, "skipped", f"{MAX_WAITING_RUNS} runs wait already")
        else:
            waiting += 1
        runs.append(run)
    return runs


def _run_of(spec: ScheduleSpec, due: int) -> ScheduleRun:
    """Return the run of a due time. Its message's id names the schedule and the due time, so it is accepted once."""
    due_at = rfc3339(due)
    message = f"{spec.schedule_id}.{due_at.replace('-', '').replace(':', '')}"
    return ScheduleRun(due_at=due_at, status="planned", message_id=message, session_id=spec.session_id or message)


def _missed(due: Sequence[int]) -> ScheduleRun:
    until = rfc3339(due[-1]) if len(due) > 1 else None
    reason = "nobody could send it in time, and catch_up makes up for no more"
    return ScheduleRun(due_at=rfc3339(due[0]), until=until, status="missed", reason=reason)


def _not_sent(run: ScheduleRun, status: RunStatus, reason: str) -> ScheduleRun:
    return run.model_copy(update={"status": status, "reason": reason, "message_id": None, "session_id": None})


def _new_after(times: DueTimes, now: int, known: set[str]) -> int | None:
    """Return the first due time after now that has had no run."""
    due = times.after(now)
    while due is not None and rfc3339(due) in known:
        due = times.after(due)
    return due


def working_runs(state: ScheduleState) -> list[ScheduleRun]:
    """Return the runs that were sent and have not ended."""
    return [run for run in state.runs if run.status in _WORKING]


def next_move(spec: ScheduleSpec, state: ScheduleState) -> Move:
    """Return what is to be done with the runs that wait."""
    waiting = [run for run in state.runs if run.status == "planned"]
    working = working_runs(state)
    if not waiting:
        return Move()
    if spec.overlap == "cancel":
        overtaken = tuple(_not_sent(run, "skipped", f"overtaken by {waiting[-1].due_at}") for run in waiting[:-1])
        return Move(send=None if working else waiting[-1], skipped=overtaken, cancel=tuple(working))
    if not working:
        return Move(send=waiting[0])
    if spec.overlap == "queue":
        return Move()
    return Move(skipped=(_not_sent(waiting[0], "skipped", f"the run of {working[-1].due_at} went on"),))


def with_runs(state: ScheduleState, *changed: ScheduleRun) -> ScheduleState:
    """Return the state with these runs in the places of those of the same due times."""
    new = {run.due_at: run for run in changed}
    return _with(state, runs=_kept(tuple(new.get(run.due_at, run) for run in state.runs))) if new else state


def paused(state: ScheduleState) -> ScheduleState:
    """Return the state of a paused schedule: nothing is due, and what waits is skipped."""
    waiting = [run for run in state.runs if run.status == "planned"]
    skipped = with_runs(state, *(_not_sent(run, "skipped", _PAUSED) for run in waiting))
    return _with(skipped, status="paused", next=None)


def resumed(spec: ScheduleSpec, state: ScheduleState, now: int) -> ScheduleState:
    """Return the state of a schedule that goes on: due times that have passed meanwhile get no run."""
    times, known = DueTimes(spec, state.created), {run.due_at for run in state.runs}
    due, runs = _new_after(times, now, known), state.runs
    if due is None and times.only is not None and rfc3339(times.only) not in known:
        runs = (*runs, _not_sent(_run_of(spec, times.only), "skipped", _PAUSED))
    return settled(_with(state, status="active", next=due, runs=runs), now)


def settled(state: ScheduleState, now: int) -> ScheduleState:
    """Return the state, ended if nothing is due any more and no run goes on."""
    if state.status != "active" or state.next is not None or any(run.status in _OPEN for run in state.runs):
        return state
    return _with(state, status="ended", ended=now)


def wake_of(state: ScheduleState, now: int) -> int | None:
    """Return when the schedule is to be looked at next: when something is due, a run may have ended, or it is to go."""
    if state.ended is not None:
        return state.ended + ENDED_KEPT_MS
    working = working_runs(state)
    waited = any(run.status == "planned" for run in state.runs)
    looks = [now + _look_after(run, now, waited) for run in working] or ([now] if waited else [])
    return min([*looks, *([] if state.next is None else [state.next])], default=None)


def _look_after(run: ScheduleRun, now: int, waited: bool) -> int:
    age = now - milliseconds(run.sent_at or run.due_at)
    return max(_FIRST_LOOK_MS, min(age // _AGE_SHARE, _WAITED_LOOK_MS if waited else _LAST_LOOK_MS))


def _kept(runs: tuple[ScheduleRun, ...]) -> tuple[ScheduleRun, ...]:
    """Return the runs, in the order of their due times, without the oldest of very many that have ended."""
    ended = [run for run in runs if run.status not in _OPEN]
    dropped = {run.due_at for run in sorted(ended, key=_due)[: max(0, len(ended) - MAX_RUNS)]}
    return tuple(sorted((run for run in runs if run.due_at not in dropped), key=_due))


def _due(run: ScheduleRun) -> str:
    return run.due_at


def _with(state: ScheduleState, **fields: object) -> ScheduleState:
    return state.model_copy(update=fields)
