"""Decides what to do with a task that has mail. Pure: header and mail in, a plan out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EndStatus
from pentad.contracts.ids import rfc3339
from pentad.contracts.tools import OutcomeKind, ToolOutcome
from pentad.contracts.turns import NEEDS_APPROVAL, NEEDS_CLIENT
from pentad.services.task_runner.domain.arrived import Arrived, is_ended
from pentad.services.task_runner.domain.turn import exceeded_by
from pentad.shared.actors.headers import OpenCall, TaskHeader
from pentad.shared.actors.mail import ApprovalMail, CallRequest, MoveMail, SuspendedCall, UserMail
from pentad.shared.actors.targets import (
    asks_person,
    awaits_calls,
    awaits_client,
    awaits_decision,
    ends_last,
    is_kept,
    rule_of,
)
from pentad.shared.immutable import immutable
from pentad.shared.kinds import COMPLETE, PAUSE, RESUME, TimerKind


@immutable
class Bounds:
    """The settings that a plan depends on; times in ms."""

    step_limit: int
    step_timeout_ms: int
    wait_ttl_ms: int
    stale_ms: int


@immutable
class Idle:
    """The task has nothing to do yet; ``spent`` are numbers of mail that is not needed any more."""

    spent: tuple[int, ...] = ()


@immutable
class Closed:
    """An open call, and how it ends without its tool."""

    call: OpenCall
    outcome: ToolOutcome


EndMode = Literal["complete", "stop", "fail"]
"""The fate of messages that came during this handling, which its plan has not seen.

``complete``: the task does not end, and goes on with them. ``stop``: they end with the task. ``fail``: the
task ends, and begins again with them.
"""


@immutable
class End:
    """The task ends now; open calls get a result that says so."""

    status: EndStatus
    mode: EndMode
    reason: str
    detail: str = ""
    """The reason explained to a person; '' when the reason code needs no explanation."""
    closed: tuple[Closed, ...] = ()


@immutable
class Pause:
    """Results are written down; then the task waits for a person."""

    reason: str
    closed: tuple[Closed, ...] = ()


@immutable
class Hold:
    """A person has paused the task. It keeps its mail, and waits until a person resumes it."""


@immutable
class Resume:
    """The task goes on where it was paused."""


@immutable
class StillPaused:
    """A message has come for a paused task: it waits in the mailbox, and its sender is told so."""


@immutable
class Stale:
    """The task was idle for long: the person is asked whether it is still wanted."""


@immutable
class Answered:
    """The person has spoken; calls of the last step have no result yet. The message waits for them."""


@immutable
class GoesOn:
    """The task waits no more, and says so before its model is asked, which may take long. Its mail is handled next."""


@immutable
class AwaitAnswers:
    """The task waits for persons' decisions about its calls alone, or for results of its client. All mail stays until
    they have come.
    """

    reason: str


@immutable
class Advance:
    """Open calls wait for something else from now on, or are made. Other mail is handled afterwards."""

    decisions: tuple[tuple[OpenCall, ApprovalMail], ...] = ()
    """Calls that somebody has allowed or refused."""
    expired: tuple[OpenCall, ...] = ()
    """Calls about which nobody has decided in time."""
    suspended: tuple[tuple[OpenCall, SuspendedCall], ...] = ()
    """Calls that have begun, and that need something to go on."""
    released: tuple[OpenCall, ...] = ()
    """Calls that have waited for others, which have all ended well."""
    blocked: tuple[tuple[OpenCall, str], ...] = ()
    """Calls that have waited for another, and the tool of that one, which has failed."""

    @property
    def kept(self) -> list[str]:
        """Ids of the calls that are needed as they are kept beside the task."""
        decided = [call.id for call, _ in self.decisions]
        return [*decided, *(call.id for call in (*self.expired, *self.released))]


@immutable
class Finish:
    """The task completes with the summary that a call of ``complete_task`` gave, unless a message has come since."""

    call: str
    """Id of the ``complete_task`` call."""
    mode: EndMode
    closed: tuple[Closed, ...] = ()


@immutable
class AskModel:
    """Ask the model."""

    closed: tuple[Closed, ...] = ()
    """Calls that are given up first, and answered so."""


@immutable
class CallAgain:
    """Make these tool calls, which a person has redriven, instead of asking the model."""

    calls: tuple[CallRequest, ...]
    closed: tuple[Closed, ...] = ()


@immutable
class Reopen:
    """The task had ended and begins again with messages that came since, or with a redrive; they are handled next."""

    deadline: int
    """Deadline of the new turn in ms, 0 for none: the end has removed the one of the turn before."""


@immutable
class GiveAway:
    """A person moves one of the task's messages to another task. Other mail is handled afterwards."""

    move: MoveMail
    number: int
    """Number of the mail that asks for the move."""


@immutable
class Enqueue:
    """The task would go on, and others are active: it is pending, and keeps its mail, until it gets a place."""


@immutable
class Start:
    """The pending task has got a place and becomes active. Its mail is handled next."""


CLOSED = "closed"
"""Reason of the end of a task that waited, and that a person said is done."""
WAIT_EXPIRED = "wait_expired"
"""Reason of the end of a task that waited for a person who did not answer."""
_OUT_OF_TIME = "no result within the time of the graph's node"
_TOO_LATE = "no result within the step's time limit"
Plan = (
    Idle
    | End
    | Pause
    | Hold
    | Resume
    | StillPaused
    | Stale
    | Answered
    | GoesOn
    | AwaitAnswers
    | Advance
    | Finish
    | AskModel
    | CallAgain
    | Reopen
    | GiveAway
    | Enqueue
    | Start
)


def plan(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> Plan:
    """Decide what this handling of the task does."""
    wanted = _plan_with_place(task, arrived, now, bounds)
    goes_on = isinstance(wanted, AskModel | CallAgain | Answered | Advance)
    if task.status == "pending" and (goes_on or isinstance(wanted, Idle | Stale)):
        return Idle(arrived.control_numbers) if task.queued else Start()
    if task.queued and goes_on:
        return Enqueue()
    return GoesOn() if task.waits and isinstance(wanted, AskModel | CallAgain) else wanted


def _plan_with_place(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> Plan:
    """Decide what the task would do if it had a place."""
    if arrived.moves:
        return GiveAway(arrived.moves[0], arrived.move_numbers[0])
    if task.ended:
        if arrived.asks and task.status != "cancelled":
            return Reopen(next((at for mail in reversed(arrived.users) if (at := mail.message.due)), 0))
        return Idle(
            arrived.control_numbers
            + arrived.result_numbers
            + arrived.redrive_numbers
            + arrived.decision_numbers
            + arrived.suspended_numbers
        )
    unfinished = tuple([call for call in task.open if call.id not in arrived.results])
    if "cancel" in arrived.controls:
        return End("cancelled", "stop", "cancelled", closed=give_up(unfinished, "the task was cancelled"))
    if task.deadline and now >= task.deadline:
        closed = give_up(unfinished, "the deadline has passed", "timeout")
        detail = f"the turn's deadline was {rfc3339(task.deadline)}"
        return End("failed", "stop", ErrorCode.DEADLINE_EXCEEDED.value, detail, closed)
    if task.open and 0 < task.limit_at <= now and not task.waits:
        return AskModel(give_up(unfinished, _OUT_OF_TIME, "timeout"))
    if COMPLETE in arrived.controls and task.waits and not arrived.asks:
        mode: EndMode = "fail" if arrived.queues else "complete"
        return End("completed", mode, CLOSED, closed=give_up(unfinished, "the task was completed by a person"))
    if task.waits and _wait_is_over(task, arrived, now, bounds):
        detail = f"nobody has answered for {bounds.wait_ttl_ms / 1000:g} s; PENTAD_WAIT_TTL_S is the limit"
        return End("failed", "fail", WAIT_EXPIRED, detail, give_up(unfinished, "nobody has answered", "timeout"))
    if task.paused or arrived.asked_to == PAUSE:
        return _paused(task, arrived) or _rest(task, arrived, now, bounds)
    if (advanced := _advanced(task, unfinished, arrived, now)) is not None:
        return advanced
    missing = tuple([call for call in unfinished if not is_ended(call, arrived)])
    if missing and any(call.id in arrived.results for call in task.open if rule_of(call).alone):
        return AskModel()
    if missing and all(is_kept(call) or awaits_client(call) for call in missing):
        told = arrived.user_number <= task.paused_mail  # who says something meanwhile is told what the task waits for
        by_client = not any(awaits_decision(call) for call in missing) and any(awaits_client(call) for call in missing)
        reason = NEEDS_CLIENT if by_client else NEEDS_APPROVAL
        settled = task.waits and task.reason == reason and told
        return _rest(task, arrived, now, bounds) if settled else AwaitAnswers(reason)
    if missing:
        if now < task.asked_at + bounds.step_timeout_ms or not all(rule_of(call).timed for call in missing):
            return Answered() if arrived.users and task.waits else _rest(task, arrived, now, bounds)
        return _go_on(task, arrived, bounds.step_limit, give_up(missing, _TOO_LATE, "timeout"))
    if task.open or arrived.asks or task.unanswered or (task.repairs and task.status == "active"):
        return _go_on(task, arrived, bounds.step_limit, ())
    return _rest(task, arrived, now, bounds)


def _advanced(task: TaskHeader, unfinished: Sequence[OpenCall], arrived: Arrived, now: int) -> Advance | None:
    """Find which open calls have got what they waited for; None for none. A decision that came in time counts."""
    if not arrived.suspended and not any(is_kept(call) for call in unfinished):
        return None
    waiting = [call for call in unfinished if awaits_decision(call)]
    held = [call for call in unfinished if awaits_calls(call)]
    suspended = [(call, arrived.suspended[call.id]) for call in unfinished if call.id in arrived.suspended]
    blocked = [(call, tool) for call in held if (tool := _failed_before(call, task, arrived))]
    hopeless = {call.id for call, _ in blocked}
    found = Advance(
        decisions=tuple([(call, arrived.decisions[call.id]) for call in waiting if call.id in arrived.decisions]),
        expired=tuple([call for call in waiting if call.id not in arrived.decisions and call.until <= now]),
        suspended=tuple([(call, need) for call, need in suspended if not is_kept(call)]),
        released=tuple(
            [call for call in held if call.id not in hopeless and all(each in arrived.results for each in call.after)]
        ),
        blocked=tuple(blocked),
    )
    return None if found == Advance() else found


def _failed_before(call: OpenCall, task: TaskHeader, arrived: Arrived) -> str:
    """Return the tool of a call that has failed and that this one comes after; '' for none. A call goes on with the
    failures of those that it has made itself."""
    failed = {each for each in call.after if each in arrived.results and not arrived.results[each].ok}
    return next((each.tool for each in task.open if each.id in failed and each.inner_of != call.id), "")


def _wait_is_over(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> bool:
    """Whether a task that waits for a person has done so for as long as it may, and nobody has changed anything."""
    due = "wait" in arrived.controls and now >= task.waiting_at + bounds.wait_ttl_ms
    changes = arrived.asked_to == (RESUME if task.paused else PAUSE)
    return due and not (changes or (arrived.asks and not task.paused))


def _paused(task: TaskHeader, arrived: Arrived) -> Hold | Resume | StillPaused | None:
    """The plan of a pause or of its end; None when neither changes anything."""
    if not task.paused:
        return Hold()
    if arrived.asked_to == RESUME:
        return Resume()
    return StillPaused() if arrived.user_number > task.paused_mail else None


def _rest(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> Stale | Idle:
    """Stay idle, or ask whether the task is still wanted when it was idle for long."""
    long = "stale" in arrived.controls and now >= task.updated + bounds.stale_ms
    return Stale() if long and task.status != "stale" else Idle(arrived.control_numbers)


@immutable
class Timer:
    """A timer to be set again, and when it is due."""

    kind: TimerKind
    at: int
    counts_from: str = ""
    """Field of the header that the timer counts from, if its time lies in the future because the clock stepped back; it
    is set to the time of the commit. '' if it does not."""


def fired_early(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> tuple[Timer, ...]:
    """Return the timers that fired too early, because the clock stepped back or a setting has grown.

    Each is set again for what is left of its time, and never for longer than it is long. Where the model is asked
    again, the time limit of the calls before it may have fired, and been acknowledged when the model was first asked.
    """
    if task.ended or not arrived.controls:
        return ()
    fired = {*arrived.controls, *(["timeout"] if "retry" in arrived.controls else [])}
    stale = bounds.stale_ms if task.status != "stale" else 0
    counted: dict[TimerKind, tuple[str, int, int]] = {
        "timeout": ("asked_at", task.asked_at, bounds.step_timeout_ms if task.open else 0),
        "wait": ("waiting_at", task.waiting_at, bounds.wait_ttl_ms if task.waits else 0),
        "stale": ("updated", task.updated, stale),
    }
    early = [
        Timer(kind, min(since, now) + length, name if since > now else "")
        for kind, (name, since, length) in counted.items()
        if kind in fired and length and now < since + length
    ]
    if "deadline" in arrived.controls and now < task.deadline:
        early.append(Timer("deadline", task.deadline))
    if "limit" in arrived.controls and now < task.limit_at and task.open:
        early.append(Timer("limit", task.limit_at))
    if "expiry" in arrived.controls:
        later = [call.until for call in task.open if awaits_decision(call) and call.until > now]
        early += [Timer("expiry", min(later))] if later else []
    return tuple(early)


def _go_on(task: TaskHeader, arrived: Arrived, step_limit: int, closed: tuple[Closed, ...]) -> Plan:
    """Go on with the turn, for all calls are closed, unless a limit forbids it."""
    if arrived.redrives:
        again = tuple(call for redrive in arrived.redrives for call in redrive.calls)
        if again:
            return CallAgain(again, closed)
    completing = next((call.id for call in task.open if ends_last(call)), "")
    if completing and not arrived.asks:
        return Finish(completing, "fail" if arrived.queues else "complete", closed)
    if arrived.users and exceeded_by(arrived.users[-1].message.budget, 0, 0.0, 0):
        return Pause(ErrorCode.BUDGET_EXCEEDED.value, closed)
    if arrived.asks:
        return AskModel(closed=closed)
    steps = task.turn_steps - task.node_from
    if steps >= step_limit:
        detail = f"{steps} steps since the last message have led to no answer; PENTAD_STEP_LIMIT is the limit"
        return End("failed", "fail", ErrorCode.STEP_LIMIT.value, detail, closed)
    if exceeded_by(task.budget, task.turn_tokens, task.turn_usd, task.turn_steps):
        if task.parent:  # its budget is a part of its parent's: nobody could give it more
            return End("failed", "fail", ErrorCode.BUDGET_EXCEEDED.value, "its part of the budget is used up", closed)
        return Pause(ErrorCode.BUDGET_EXCEEDED.value, closed)
    return AskModel(closed=closed)


def give_up(calls: Sequence[OpenCall], reason: str, kind: OutcomeKind = "cancelled") -> tuple[Closed, ...]:
    """Close calls without their tools, for this reason."""
    return tuple(Closed(call, ToolOutcome(kind, reason)) for call in calls)


def mail_of_this_turn(task: TaskHeader, arrived: Arrived) -> Arrived:
    """The mail with the messages of this turn only: one begins the turn, and one more answers each question.

    A cancel, a pause and a move concern all messages that wait, so with one of these all messages stay.
    """
    if task.paused or arrived.moves or arrived.asked_to == PAUSE or "cancel" in arrived.controls:
        return arrived
    users: tuple[UserMail, ...] = () if _under_way(task, arrived) else arrived.users[:1]
    return replace(
        arrived,
        users=users,
        user_number=arrived.first_number if users else 0,
        queues=True,
        left=len(arrived.users) > len(users),
    )


def _under_way(task: TaskHeader, arrived: Arrived) -> bool:
    """Whether a turn has begun that waits for no message."""
    if arrived.redrives:
        return True
    if task.ended:
        return False
    repairs = task.repairs > 0 and task.status == "active"
    calls = bool(task.open) and not any(asks_person(call) or awaits_client(call) for call in task.open)
    return calls or repairs or task.unanswered > 0
