"""Which task a message belongs to. Pure: the router's handler reads the state and commits the decision."""

from collections.abc import Collection
from dataclasses import field
from typing import Literal

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import Decision
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.immutable import immutable

_GOAL_LENGTH = 500
DEFAULT_INSTRUCTION = "executor"
"""What runs when nobody says what."""


@immutable
class View:
    """What the decision sees. Each task as it is now, or None when there is none."""

    message: InboundMessage
    live: tuple[TaskHeader, ...]
    """The session's tasks that go on, the one that was spoken to last first."""
    done: TaskHeader | None
    """The task that ended last."""
    named: TaskHeader | None = None
    """The task that the message names, when it is a task of this session."""
    archived: str = ""
    """What the named task ran that has left Redis and has a record; '' when there is none."""
    damaged: str = ""
    """Why the named task cannot be read; '' when nothing is wrong with it."""
    instructions: Collection[str] = (DEFAULT_INSTRUCTION,)
    """Names of what can be run."""
    now: int = 0
    grace_ms: int = 0


@immutable
class Route:
    """The decision, why, and what it rests on."""

    decision: Decision
    reason: str
    task: TaskHeader | None = None
    """The task that takes the message; None for a new one or a refusal."""
    error: ErrorCode | None = None
    """A refusal that is also told as an ``error``."""
    instruction: str = DEFAULT_INSTRUCTION
    """What a new task runs."""
    continues: Literal["session", "record"] = "session"
    """Where a new task's context comes from."""
    candidates: list[str] = field(default_factory=list)
    confidence: float = 1.0
    """How sure it is: 1.0 when the message or the lack of a choice says so."""


@immutable
class Question:
    """No rule says which of these tasks a message belongs to."""

    candidates: tuple[TaskHeader, ...]
    """The one that was spoken to last first."""


RECENCY = 0.6
"""How often the task that was spoken to last is the one that is meant, of several, in labelled conversations."""


def by_recency(question: Question) -> Route:
    """The answer without asking anybody: the task that was spoken to last."""
    candidates = [task.task for task in question.candidates]
    reason = f"of {len(candidates)} live tasks the one that was spoken to last"
    return Route("append", reason, question.candidates[0], candidates=candidates, confidence=RECENCY)


def decide(view: View) -> Route | Question:
    """Route one message by the rules, or say what they leave open."""
    refusal = _refusal(view)
    if refusal is not None:
        return refusal
    known = tuple(task for task in view.live if _runs(view.message, task))
    candidates = [task.task for task in known]
    if view.done is not None and view.done.task not in candidates and _runs(view.message, view.done):
        known, candidates = (*known, view.done), [*candidates, view.done.task]
    if view.message.task_id is not None:
        return _to_named(view, candidates)
    # The session was read before its tasks: what was live may have ended by now, and what had ended may go on.
    going_on = tuple(task for task in known if not task.ended)
    if len(going_on) > 1:
        return Question(going_on)
    if going_on:
        return Route("append", "the session's live task", going_on[0], candidates=candidates)
    last = max(known, key=lambda task: task.ended_at, default=None)
    if last is not None and _reopenable(view, last):
        return Route("reopen", "the session's last task ended within the grace time", last, candidates=candidates)
    runs = view.message.instruction or DEFAULT_INSTRUCTION
    return Route(
        "new", "no live task, and none that ended within the grace time", instruction=runs, candidates=candidates
    )


def _runs(message: InboundMessage, task: TaskHeader) -> bool:
    """Whether the task runs what the message asks for: most messages leave that open."""
    return message.instruction is None or message.instruction == task.instruction


def _refusal(view: View) -> Route | None:
    name = view.message.instruction
    if name is not None and name not in view.instructions:
        known = ", ".join(sorted(view.instructions))
        return Route("rejected", f"there is no instruction {name!r}; known: {known}", error=ErrorCode.BAD_MESSAGE)
    if 0 < view.message.due <= view.now:
        return Route("rejected", "its deadline had passed", error=ErrorCode.DEADLINE_EXCEEDED)
    return None


def _reopenable(view: View, task: TaskHeader) -> bool:
    return task.status == "completed" and view.now - task.ended_at <= view.grace_ms


def _to_named(view: View, candidates: list[str]) -> Route:
    task = view.named
    if task is None and view.archived:
        runs = view.message.instruction or (view.archived if view.archived in view.instructions else "")
        reason = "the named task is archived: a new one begins with what it knows"
        return Route("new", reason, instruction=runs or DEFAULT_INSTRUCTION, continues="record")
    if task is None:
        reason = view.damaged or f"this session has no task {view.message.task_id!r}"
        return Route("rejected", reason, error=ErrorCode.UNKNOWN_TASK, candidates=candidates)
    if not _runs(view.message, task):
        reason = f"the named task runs the instruction {task.instruction!r}: leave `instruction` out"
        return Route("rejected", reason, error=ErrorCode.NOT_ALLOWED, candidates=candidates)
    if task.status == "cancelled":
        return Route("rejected", "the named task was cancelled", error=ErrorCode.NOT_ALLOWED, candidates=candidates)
    if task.ended:
        return Route("reopen", "the message names this ended task", task, candidates=candidates)
    return Route("append", "the message names this task", task, candidates=candidates)


def goal_of(content: str) -> str:
    """A task's goal: its first message, short enough for a header."""
    return content if len(content) <= _GOAL_LENGTH else content[: _GOAL_LENGTH - 1] + "…"
