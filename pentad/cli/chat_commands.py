"""Lines of a conversation at the terminal are read: something to say, or a command, which begins with a slash."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pentad.cli.decided_before import MAX_TASKS_ASKED, decided_before, said_before
from pentad.cli.render import Style, ago, awaited, one_line, width
from pentad.cli.task_labels import TaskLabels
from pentad.client.agent import Agent
from pentad.client.inspection import Inspection
from pentad.client.turns import Turn
from pentad.contracts.commands import NEW_TASK
from pentad.contracts.plain_json import read_json
from pentad.contracts.records import Task, UnreadableTask
from pentad.errors import NotFound, Refused

TASKS_SHOWN = 50
TURNS_SHOWN = 6
"""Messages of before that a conversation which is come back to shows."""
HELP = (
    "what you say goes to the task that it belongs to, also while that works, or begins another one",
    "/tasks            the tasks of this conversation, with their numbers",
    "/task NUMBER TEXT say something to this task; /task new TEXT: to a new one",
    "/cancel NUMBER    stop this task",
    "/approve [CALL] [JSON]  allow the tool call that waits for it; JSON: with other arguments",
    "/refuse [CALL] [WHY]  refuse it",
    "/move NUMBER|new  give your last message to this task, or to a new one",
    "/quit, exit       leave; Ctrl-D too. What runs goes on",
    "Alt-Enter         a new line of the same message",
    "Tab, PageUp       in a wide terminal: to the pane beside the talk and back; what was said before",
    "Ctrl-C            stop the task that was shown last; at an empty prompt: leave",
)
_COMMAND = re.compile(r"/[a-z_-]+")
"""A command: a path has a second slash, or a dot."""
_COMMAND_CHARS = 40
"""Characters of an unknown command that are shown."""
_PLAIN: Mapping[str, Literal["tasks", "help", "quit"]] = {
    "/tasks": "tasks",
    "/help": "help",
    "/quit": "quit",
    "/exit": "quit",
}
_FORMS = {
    "/task": "/task NUMBER TEXT, or /task new TEXT",
    "/move": "/move NUMBER or /move new",
    "/cancel": "/cancel NUMBER; /tasks lists the numbers",
    "/approve": "/approve, /approve CALL, or /approve CALL JSON",
} | {name: f"{name} alone" for name in _PLAIN}
_MOVE = re.compile(r"/move\s+(\d+|new)")
_CALL = r"(?:\s+(call-[A-Za-z0-9._~@-]{1,123}))?"
_APPROVE = re.compile(rf"/approve{_CALL}(?:\s+(\{{.*\}}))?", re.DOTALL)
_REFUSE = re.compile(rf"/refuse{_CALL}(?:\s+(\S.*))?", re.DOTALL)
_TO_TASK = re.compile(r"/task\s+(\d+|new)\s+(\S.*)", re.DOTALL)
_CALLS_NAMED = 5
_STATUS_COLUMNS = 9
_AGE_COLUMNS = 10
_TURN_LINES = 3
"""Rows that a turn of before takes at most."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line that was typed: ``text`` is the message to send, why a call is refused, or why the line is none."""

    kind: Literal["say", "cancel", "move", "approve", "refuse", "tasks", "help", "quit", "wrong"]
    text: str = ""
    number: str | None = None
    """Number of the task that is cancelled, or that the message is sent or moved to, or ``new``. None: the router
    chooses, or a new task."""
    call: str | None = None
    """Tool call that is allowed or refused; None: the only one that waits."""
    args: Mapping[str, Any] | None = None
    """Arguments with which an allowed call is made instead of its own."""


@dataclass(frozen=True, slots=True)
class Said:
    """The person's last message, and the task that has it."""

    message_id: str
    task_id: str


def understood(typed: str) -> Line:
    """Return what a line means: a command, which begins with one slash, or a text; `//` begins a text with a slash."""
    text = typed.strip()
    if text in ("exit", "quit"):
        return Line("quit")
    if text.startswith("//"):
        return Line("say", text[1:])
    command, _, rest = text.partition(" ")
    if _COMMAND.fullmatch(command) is None:
        return Line("say", text)
    return _read_command(command, rest.strip(), text)


def _read_command(command: str, rest: str, text: str) -> Line:
    if command in _PLAIN and not rest:
        return Line(_PLAIN[command])
    if command == "/task" and (to_task := _TO_TASK.fullmatch(text)):
        return Line("say", to_task[2], to_task[1])
    if command == "/cancel" and rest.isascii() and rest.isdigit():
        return Line("cancel", number=rest)
    if command == "/move" and (move := _MOVE.fullmatch(text)):
        return Line("move", number=None if move[1] == "new" else move[1])
    if command == "/approve" and (allowed := _APPROVE.fullmatch(text)):
        return _approval(allowed[1], allowed[2])
    if command == "/refuse" and (refused := _REFUSE.fullmatch(text)):
        return Line("refuse", refused[2] or "", call=refused[1])
    if command in _FORMS:
        return Line("wrong", f"write it as {_FORMS[command]}")
    unknown = one_line(command, _COMMAND_CHARS)
    return Line("wrong", f"there is no command {unknown}: /help lists them, and // begins a text with a slash")


def _approval(call: str | None, edited: str | None) -> Line:
    if edited is None:
        return Line("approve", call=call)
    try:
        args = read_json(edited)
    except (TypeError, ValueError) as error:
        return Line("wrong", f"the arguments are no JSON: {error}")
    return Line("approve", call=call, args=args)


def task_meant(line: Line, labels: TaskLabels) -> str | None:
    """The id of the task that a line is for, None when it is for none in particular. Raises ``Refused``."""
    if line.number in (None, NEW_TASK):
        return line.number
    label = labels.numbered(line.number)
    if label is None:
        raise Refused(f"there is no task {line.number}: /tasks lists them")
    return label.task_id


async def cancel_task(agent: Agent, line: Line, labels: TaskLabels) -> None:
    """Cancel the task that a line names. Raises ``Refused`` for a number that no task has, and ``ClientError``."""
    task_id = task_meant(line, labels)
    assert task_id is not None
    await agent.management.cancel_task(task_id)


async def decide(agent: Agent, line: Line) -> Turn:
    """Allow or refuse the tool call that a line means; the turn that follows.

    Raises ``Refused`` without such a call, or where it was decided so before, and ``ClientError``.
    """
    waiting = [each for each in await agent.inspection.approvals(limit=None) if each.session_id == agent.session_id]
    meant = [each for each in waiting if line.call in (None, each.tool_call_id)]
    if not meant and line.call is not None:
        tasks = await agent.inspection.tasks(session_id=agent.session_id, limit=MAX_TASKS_ASKED)
        made = await decided_before(agent, line.call, approved=line.kind == "approve", tasks=tasks)
        raise Refused(said_before(made))
    if not meant:
        raise Refused("no call waits for an approval")
    if len(meant) > 1:
        raise Refused(
            f"several calls wait: name one of {', '.join(each.tool_call_id for each in meant[:_CALLS_NAMED])}"
        )
    (call,) = meant
    args = None if line.args is None else dict(line.args)
    return await agent.decide(call, approved=line.kind == "approve", reason=line.text or None, args=args)


async def turns_of_before(inspection: Inspection, session_id: str, style: Style) -> list[str]:
    """Return the last messages of a session, one line each; no lines for a new session. Raises ``ClientError``."""
    turns: list[dict[str, Any]] = []
    with suppress(NotFound):
        turns = await inspection.messages(session_id, limit=None)
    lines = []
    for turn in turns[-TURNS_SHOWN:]:
        who = "you> " if turn.get("role") == "user" else ""
        if content := turn.get("content"):
            lines.append(style.dim(one_line(f"{who}{content}", _TURN_LINES * width())))
    return lines


async def last_said(inspection: Inspection, session_id: str) -> Said:
    """Return the person's last message, which `/move` moves. Raises ``Refused`` without one, and ``ClientError``."""
    turns: list[dict[str, Any]] = []
    with suppress(NotFound):  # nothing was ever said in it
        turns = await inspection.messages(session_id, limit=None)
    said = [turn for turn in turns if turn.get("role") == "user" and turn.get("message_id") and turn.get("task_id")]
    if not said:
        raise Refused("there is no message to move yet")
    return Said(str(said[-1]["message_id"]), str(said[-1]["task_id"]))


async def move_last(agent: Agent, line: Line, labels: TaskLabels, beside: Turn | None = None) -> Turn:
    """Move the person's last message as the line says; the turn that follows from it. ``beside``: as of `Agent.move`.

    Raises ``Refused`` for what cannot be meant, and ``ClientError``.
    """
    assert agent.session_id is not None
    to = task_meant(line, labels) or NEW_TASK
    if beside is not None and not beside.placed:
        raise Refused("your last message has not found its task yet: say it again in a moment")
    said = await last_said(agent.inspection, agent.session_id)
    return await agent.move(said.message_id, to, said.task_id, beside=beside)


async def task_lines(inspection: Inspection, session_id: str, labels: TaskLabels, style: Style) -> list[str]:
    """The session's newest tasks, each with number, status, age and name. Raises ``ClientError``."""
    tasks = await inspection.tasks(session_id=session_id, limit=TASKS_SHOWN)
    labels.meet(tasks)
    return [_line(task, labels, style) for task in reversed(tasks)] or ["no tasks yet"]


def _updated(task: Task) -> str:
    passed = ago(task.updated_at)
    return passed if passed == task.updated_at else f"{passed} ago"


def _line(task: Task, labels: TaskLabels, style: Style) -> str:
    words = f"{task.status.ljust(_STATUS_COLUMNS)}  {_updated(task).ljust(_AGE_COLUMNS)}"
    about = task.problem if isinstance(task, UnreadableTask) else awaited(task)
    return f"{words}  {labels.tag(task.task_id)} {style.dim(one_line(about, width() // 3))}".rstrip()
