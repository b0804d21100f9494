"""Decides by rules which task a message belongs to; `similarity` decides what the rules leave open. Pure."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from pentad.contracts.commands import NEW_TASK, InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ControlAction, Decision, RoutingStage
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.services.router.domain.control_words import control_of
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.session_header import RECENT_TASKS
from pentad.shared.immutable import immutable

DEFAULT_INSTRUCTION = "executor"
"""Name of the instruction that a new task runs when its message names none."""


@immutable
class View:
    """The input of the decision: the message, the tasks as they are now, and settings."""

    message: InboundMessage
    known: tuple[TaskHeader, ...] = ()
    """The session's tasks that were spoken to recently, the last one first."""
    named: TaskHeader | None = None
    """The task that the message names, when it is a task of this session."""
    archived: str = ""
    """Instruction of the named task when it is archived and has a record; '' otherwise."""
    damaged: str = ""
    """Reason why the named task cannot be read; '' when it can."""
    runnables: Mapping[str, Instruction | GraphSpec] = field(default_factory=dict)
    """Instructions and graphs that a task may run, by name."""
    wrong_output: str = ""
    """Reason why the output that the message asks for is none; '' when it is one."""
    now: int = 0
    grace_ms: int = 0
    weighed: bool = True
    """Whether similarity decides what the rules leave open; otherwise the task that was spoken to last is taken."""


@immutable
class Route:
    """The decision about a message, with its reason."""

    decision: Decision
    reason: str
    task: TaskHeader | None = None
    """Task that takes the message; None for a new one or a refusal."""
    error: ErrorCode | None = None
    """Code of the ``error`` event that a refusal adds."""
    instruction: str = DEFAULT_INSTRUCTION
    """Name of the instruction that a new task runs."""
    continues: Literal["session", "record"] = "session"
    """Source of the context that a new task begins with."""
    candidates: list[str] = field(default_factory=list)
    scores: dict[str, float] | None = None
    """Probability of each candidate, where similarity was compared."""
    confidence: float = 1.0
    """Probability of the decision; 1.0 when the message names its task or there is no choice."""
    stage: RoutingStage = "rule"
    """Stage that has decided."""
    action: ControlAction | None = None
    """Control action that the message asks for; None for an ordinary message."""


@immutable
class Question:
    """The tasks that a message may belong to, when no rule decides between them and a new one."""

    tasks: tuple[TaskHeader, ...]
    """Candidates, the one that was spoken to last first."""
    instruction: str = DEFAULT_INSTRUCTION
    """Name of the instruction that a new task would run."""


def decide(view: View) -> Route | Question:
    """Route one message by the rules, or return the question that they leave open."""
    refusal = _refusal(view)
    if refusal is not None:
        return refusal
    tasks = tuple(task for task in view.known if _may_take(view, task))
    runs = view.message.instruction or DEFAULT_INSTRUCTION
    if view.message.task_id == NEW_TASK:
        return Route("new", "the message asks for a new task", instruction=runs, candidates=listed(tasks))
    if view.message.task_id is not None:
        return _to_named(view, listed(tasks))
    control = _control(view, tasks) if view.weighed else None
    if control is not None:
        return control
    if not tasks:
        return Route("new", "no live task, and none that ended within the grace time", instruction=runs)
    asking = [task for task in tasks if task.has_asked]
    if len(asking) == 1:
        return Route("append", "the task has asked for an answer", asking[0], candidates=listed(tasks))
    return Question(tasks, runs) if view.weighed else by_recency(tasks)


def _control(view: View, tasks: tuple[TaskHeader, ...]) -> Route | None:
    """The route of a message that only controls the live task that was spoken to last, or resumes a paused one."""
    live = [task for task in tasks if not task.ended]
    action = control_of(view.message.content) if live else None
    meant = [task for task in live if task.paused] if action == "resume" else live
    if action is None or not meant:
        return None
    reason = "the message asks how far it is" if action == "progress" else f"the message asks to {action} it"
    return Route("control", reason, meant[0], candidates=listed(tasks), action=action)


RECENCY = 0.6
"""Share of labelled conversations of several tasks in which the task that was spoken to last is meant."""


def by_recency(tasks: tuple[TaskHeader, ...]) -> Route:
    """Route to the task that was spoken to last, preferring a live task to an ended one."""
    going_on = [task for task in tasks if not task.ended]
    several = f"of {len(tasks)} tasks the one that was spoken to last"
    sure = 1.0 if len(tasks) == 1 else RECENCY
    if going_on:
        reason = several if len(going_on) > 1 else "the session's live task"
        return Route("append", reason, going_on[0], candidates=listed(tasks), confidence=sure)
    reason = several if len(tasks) > 1 else "the session's last task ended within the grace time"
    return Route("reopen", reason, tasks[0], candidates=listed(tasks), confidence=sure)


def listed(tasks: tuple[TaskHeader, ...]) -> list[str]:
    """Ids of these tasks."""
    return [task.task_id for task in tasks]


def kept_in_view(view: View, chosen: str) -> list[str]:
    """Ids of the other tasks that the session's next message may belong to: live ones before ended ones."""
    others = [task for task in view.known if task.task_id != chosen and (not task.ended or _reopenable(view, task))]
    others.sort(key=lambda task: task.ended)
    return [task.task_id for task in others[: RECENT_TASKS - 1]]


def _may_take(view: View, task: TaskHeader) -> bool:
    return _runs(view.message, task) and (not task.ended or _reopenable(view, task))


def _runs(message: InboundMessage, task: TaskHeader) -> bool:
    """Whether the task runs the instruction that the message names; true when the message names none."""
    return message.instruction is None or message.instruction == task.instruction


def _refusal(view: View) -> Route | None:
    name = view.message.instruction
    if name is not None and name not in view.runnables:
        return Route("rejected", _unknown(name, view), error=ErrorCode.BAD_MESSAGE)
    if view.wrong_output:
        return Route("rejected", f"its output_schema is wrong: {view.wrong_output}", error=ErrorCode.BAD_MESSAGE)
    if view.message.output_schema is not None and isinstance(view.runnables.get(name or ""), GraphSpec):
        reason = f"{name} is a graph: its last node says which form the answer has; leave output_schema out"
        return Route("rejected", reason, error=ErrorCode.BAD_MESSAGE)
    if view.message.state is not None and not _runs_a_graph(view):
        reason = "state is the initial state of a graph: name a graph as instruction, or a task that runs one"
        return Route("rejected", reason, error=ErrorCode.BAD_MESSAGE)
    if 0 < view.message.due <= view.now:
        return Route("rejected", "its deadline had passed", error=ErrorCode.DEADLINE_EXCEEDED)
    return None


def _runs_a_graph(view: View) -> bool:
    """Whether the message is for a graph, as far as it names what it is for."""
    named = view.message.instruction
    if named is not None:
        return isinstance(view.runnables.get(named), GraphSpec)
    return view.named is not None and bool(view.named.graph)


def _unknown(name: str, view: View) -> str:
    """Say that this instruction does not exist, and what the sender can do instead."""
    found = f"there is no instruction {name!r}; known: {', '.join(sorted(view.runnables))}"
    tasks = view.known if view.named is None else (view.named, *view.known)
    runs = next((task.task_id for task in tasks if task.instruction == name and not task.ended), None)
    if runs is None:
        return found
    return f"{found}. Task {runs} began with it and goes on: name the task and leave `instruction` out"


def _reopenable(view: View, task: TaskHeader) -> bool:
    return task.status == "completed" and view.now - task.ended_at <= view.grace_ms


def _to_named(view: View, candidates: list[str]) -> Route:
    task = view.named
    if task is None and view.archived:
        runs = view.message.instruction or (view.archived if view.archived in view.runnables else "")
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
