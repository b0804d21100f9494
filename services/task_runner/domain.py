"""What to do with a task that has mail. Pure: state and mail in, a plan out."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pentad.contracts.envelope import Budget
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EndStatus
from pentad.contracts.plain_json import read_json
from pentad.shared.actors.headers import UNREADABLE, Mail, OpenCall, TaskHeader
from pentad.shared.actors.mail import ResultMail, UserMail, due
from pentad.shared.immutable import immutable
from pentad.shared.kinds import RESULT, USER, TimerKind


@immutable
class Arrived:
    """What has come, sorted."""

    users: tuple[UserMail, ...]
    """Messages to be worked on."""
    ended: tuple[UserMail, ...]
    """Messages that an end has taken with it: they belong into the transcript and ask for nothing."""
    results: Mapping[str, ResultMail]
    controls: frozenset[str]
    user_number: int
    """Number of the newest of ``users``; 0 when there is none."""
    ended_number: int
    """Number of the newest of ``ended``; 0 when there is none."""
    result_numbers: tuple[int, ...]
    control_numbers: tuple[int, ...]


@immutable
class Bounds:
    """The settings that a plan depends on; times in ms."""

    step_limit: int
    step_timeout_ms: int
    wait_ttl_ms: int


@immutable
class Idle:
    """Nothing to do yet; ``spent`` mail is of no more use."""

    spent: tuple[int, ...] = ()


@immutable
class Closed:
    """An open call and how it ends without its tool: the text that the model is told."""

    call: OpenCall
    error: str
    outcome: Literal["timeout", "cancelled"] = "cancelled"


@immutable
class End:
    """The task ends now; open calls get a result that says so."""

    status: EndStatus
    reason: str
    closed: tuple[Closed, ...] = ()


@immutable
class Pause:
    """Results are written down; then the task waits for a person."""

    reason: str
    closed: tuple[Closed, ...] = ()


@immutable
class AskModel:
    """Ask the model."""

    closed: tuple[Closed, ...] = ()
    """Calls that are given up first, and answered so."""


@immutable
class Reopen:
    """The task had ended and begins again with the messages that its end has left: they are looked at next."""

    deadline: int
    """Of the new turn, in ms; 0 for none. What the end had removed with the turn before is set again."""


WAIT_EXPIRED = "wait_expired"
"""The reason of a task's end that waited for a person who did not come."""
_TOO_LATE = "no result within the step's time limit"
Plan = Idle | End | Pause | AskModel | Reopen


def sort_mail(mail: Sequence[Mail], ended_mail: int) -> Arrived:
    """Sort mail by kind, each in order. ``ended_mail``: messages up to this number belong to what has ended."""
    if any(m.kind == UNREADABLE for m in mail):
        raise ValueError("there is something in the task's mail that is none")
    users = [(m.number, UserMail.model_validate_json(m.body)) for m in mail if m.kind == USER]
    ended = [(n, u) for n, u in users if n <= ended_mail]
    users = users[len(ended) :]
    results = [(m.number, ResultMail.model_validate_json(m.body)) for m in mail if m.kind == RESULT]
    controls = [m for m in mail if m.kind not in (USER, RESULT)]
    return Arrived(
        users=tuple(u for _, u in users),
        ended=tuple(u for _, u in ended),
        results={r.tool_call_id: r for _, r in results},
        controls=frozenset(m.kind for m in controls),
        user_number=users[-1][0] if users else 0,
        ended_number=ended[-1][0] if ended else 0,
        result_numbers=tuple(n for n, _ in results),
        control_numbers=tuple(m.number for m in controls),
    )


def plan(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> Plan:
    """Decide what this handling does."""
    if task.ended:
        if arrived.users and task.status != "cancelled":
            return Reopen(next((at for mail in reversed(arrived.users) if (at := due(mail.message))), 0))
        return Idle(arrived.control_numbers + arrived.result_numbers)
    missing = tuple(call for call in task.open if call.id not in arrived.results)
    if "cancel" in arrived.controls:
        return End("cancelled", "cancelled", _give_up(missing, "the task was cancelled"))
    if task.deadline and now >= task.deadline:
        return End("failed", ErrorCode.DEADLINE_EXCEEDED.value, _give_up(missing, "the deadline has passed", "timeout"))
    if missing and now < task.asked_at + bounds.step_timeout_ms:
        return Idle(arrived.control_numbers)
    if missing:
        return _go_on(task, arrived, bounds.step_limit, _give_up(missing, _TOO_LATE, "timeout"))
    if task.open or arrived.users:
        return _go_on(task, arrived, bounds.step_limit, ())
    if task.status == "waiting" and "wait" in arrived.controls and now >= task.waiting_at + bounds.wait_ttl_ms:
        return End("failed", WAIT_EXPIRED)
    return Idle(arrived.control_numbers)


@immutable
class Timer:
    """A timer to be set again, and when it is due."""

    kind: TimerKind
    at: int


def fired_early(task: TaskHeader, arrived: Arrived, now: int, bounds: Bounds) -> tuple[Timer, ...]:
    """Timers that fired before their time: the clock has stepped back since, or a setting has grown. What is left of
    them is waited for, never longer than they are long."""
    if task.ended:
        return ()
    limits: dict[TimerKind, int] = {
        "deadline": task.deadline,
        "timeout": min(task.asked_at, now) + bounds.step_timeout_ms if task.open else 0,
        "wait": min(task.waiting_at, now) + bounds.wait_ttl_ms if task.status == "waiting" else 0,
    }
    return tuple(Timer(kind, at) for kind, at in limits.items() if kind in arrived.controls and at and now < at)


def _go_on(task: TaskHeader, arrived: Arrived, step_limit: int, closed: tuple[Closed, ...]) -> Plan:
    """All calls have their results, or are given up: think, unless a limit says otherwise."""
    if arrived.users:
        refused = exceeded_by(arrived.users[-1].message.budget, 0, 0.0, 0)
        return Pause(ErrorCode.BUDGET_EXCEEDED.value, closed) if refused else AskModel(closed=closed)
    if task.turn_steps >= step_limit:
        return End("failed", ErrorCode.STEP_LIMIT.value, closed)
    if exceeded_by(task.budget, task.turn_tokens, task.turn_usd, task.turn_steps):
        return Pause(ErrorCode.BUDGET_EXCEEDED.value, closed)
    return AskModel(closed=closed)


def exceeded_by(budget: Budget | None, tokens: int, usd: float, steps: int) -> bool:
    """Whether a turn that has used this much may not go on."""
    if budget is None:
        return False
    return (
        (budget.tokens is not None and tokens >= budget.tokens)
        or (budget.usd is not None and usd >= budget.usd)
        or (budget.steps is not None and steps >= budget.steps)
    )


def remaining(budget: Budget | None, tokens: int, usd: float, steps: int) -> Budget | None:
    """What is left of a turn's budget."""
    if budget is None:
        return None
    return Budget(
        tokens=None if budget.tokens is None else max(0, budget.tokens - tokens),
        usd=None if budget.usd is None else max(0.0, budget.usd - usd),
        steps=None if budget.steps is None else max(0, budget.steps - steps),
    )


def _give_up(
    calls: Sequence[OpenCall], error: str, outcome: Literal["timeout", "cancelled"] = "cancelled"
) -> tuple[Closed, ...]:
    return tuple(Closed(call, error, outcome) for call in calls)


@immutable
class ParsedArguments:
    """A call's arguments as the model wrote them: an object, or the raw text and what is wrong with it."""

    args: dict[str, object] | None
    raw: str
    problem: str = ""


def parse_arguments(raw: str) -> ParsedArguments:
    """Read a call's arguments; an empty text is an empty object."""
    try:
        parsed = read_json(raw or "{}")
    except ValueError as error:
        return ParsedArguments(None, raw, f"the arguments are not JSON ({error})")
    if not isinstance(parsed, dict):
        return ParsedArguments(None, raw, "the arguments are not a JSON object")
    return ParsedArguments(parsed, raw)


RetryReason = Literal["unavailable", "cut_off"]


@immutable
class Retry:
    """Try this step again after a pause."""

    delay_ms: int
    fails: int
    retry_since: int


def after_model_error(
    task: TaskHeader, reason: RetryReason, now: int, retry_after_s: float | None, jitter: float, limits: tuple[int, int]
) -> Retry | None:
    """Whether to ask the model again, and when. None: give up. ``jitter`` in [0, 1); limits: attempts, step ms."""
    max_attempts, step_timeout_ms = limits
    since = task.retry_since or now
    fails = task.fails + (reason == "cut_off")
    if fails >= max_attempts or now - since >= step_timeout_ms:
        return None
    tries = min(6, fails + (now - since) // 1000)
    delay = min(30_000, 250 * 2**tries) * (0.5 + jitter / 2)
    if retry_after_s is not None:
        delay = max(delay, retry_after_s * 1000)
    return Retry(min(round(delay), max(0, since + step_timeout_ms - now)), fails, since)
