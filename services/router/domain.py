"""Which task a message belongs to. Pure: the router's handler reads the state and commits the decision."""

from dataclasses import field
from typing import Literal

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import Decision
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.immutable import immutable

_GOAL_LENGTH = 500


@immutable
class View:
    """What the decision sees. Each task as it is now, or None when there is none."""

    message: InboundMessage
    live: TaskHeader | None
    done: TaskHeader | None
    named: TaskHeader | None = None
    """The task that the message names, when it is a task of this session."""
    archived: bool = False
    """The named task has left Redis and has a record."""
    damaged: str = ""
    """Why the named task cannot be read; '' when nothing is wrong with it."""
    instructions: frozenset[str] = frozenset({"executor"})
    now: int = 0
    grace_ms: int = 0
    deadline: int = 0
    """The message's deadline in ms, 0 for none."""


@immutable
class Route:
    """The decision, why, and what it rests on."""

    decision: Decision
    reason: str
    task: TaskHeader | None = None
    """The task that takes the message; None for a new one or a refusal."""
    error: ErrorCode | None = None
    """A refusal that is also told as an ``error``."""
    continues: Literal["session", "record"] = "session"
    """Where a new task's context comes from."""
    candidates: list[str] = field(default_factory=list)


def decide(view: View) -> Route:
    """Route one message."""
    candidates = [t.task for t in (view.live, view.done) if t is not None]
    refusal = _refusal(view)
    if refusal is not None:
        return refusal
    if view.message.task_id is not None:
        return _to_named(view, candidates)
    # The session was read before its tasks: what was live may have ended by now, and what had ended may go on.
    for task in (view.live, view.done):
        if task is not None and not task.ended:
            return Route("append", "the session's live task", task, candidates=candidates)
    last = view.live or view.done
    if last is not None and _reopenable(view, last):
        return Route("reopen", "the session's last task ended within the grace time", last, candidates=candidates)
    return Route("new", "no live task, and none that ended within the grace time", candidates=candidates)


def _refusal(view: View) -> Route | None:
    name = view.message.instruction
    if name not in view.instructions:
        known = ", ".join(sorted(view.instructions))
        return Route("rejected", f"there is no instruction {name!r}; known: {known}", error=ErrorCode.BAD_MESSAGE)
    if view.deadline and view.deadline <= view.now:
        return Route("rejected", "its deadline had passed", error=ErrorCode.DEADLINE_EXCEEDED)
    return None


def _reopenable(view: View, task: TaskHeader) -> bool:
    return task.status == "completed" and view.now - task.ended_at <= view.grace_ms


def _to_named(view: View, candidates: list[str]) -> Route:
    task = view.named
    if task is None and view.archived:
        return Route("new", "the named task is archived: a new one begins with what it knows", continues="record")
    if task is None:
        reason = view.damaged or f"this session has no task {view.message.task_id!r}"
        return Route("rejected", reason, error=ErrorCode.UNKNOWN_TASK, candidates=candidates)
    if task.status == "cancelled":
        return Route("rejected", "the named task was cancelled", error=ErrorCode.NOT_ALLOWED, candidates=candidates)
    if task.ended:
        return Route("reopen", "the message names this ended task", task, candidates=candidates)
    return Route("append", "the message names this task", task, candidates=candidates)


def goal_of(content: str) -> str:
    """A task's goal: its first message, short enough for a header."""
    return content if len(content) <= _GOAL_LENGTH else content[: _GOAL_LENGTH - 1] + "…"
