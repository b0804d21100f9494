"""What a line of a conversation means: something to say, or a command, which begins with a slash."""

import re
from dataclasses import dataclass
from typing import Literal

from pentad.cli.task_labels import TaskLabels
from pentad.contracts.records import Task, UnreadableTask
from pentad.errors import Refused
from pentad.inspection import Inspection
from pentad.render import Style, ago, one_line, width

TASKS_SHOWN = 50
_TO_TASK = re.compile(r"/task\s+(\d+)\s+(\S.*)", re.DOTALL)
_STATUS_COLUMNS = 9
_AGE_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """What was typed: ``text`` is what to say, or why the line cannot be understood."""

    kind: Literal["say", "tasks", "quit", "wrong"]
    text: str = ""
    number: str | None = None
    """Of the task that it is said to."""


def understood(typed: str) -> Line:
    """The line's meaning. Other words that begin with a slash are something to say: paths do."""
    text = typed.strip()
    first = text.partition(" ")[0]
    if text in ("/quit", "/exit"):
        return Line("quit")
    if text == "/tasks":
        return Line("tasks")
    if first == "/task":
        to_task = _TO_TASK.fullmatch(text)
        return Line("say", to_task[2], to_task[1]) if to_task else Line("wrong", "write it as /task NUMBER TEXT")
    return Line("say", text)


def task_meant(line: Line, labels: TaskLabels) -> str | None:
    """The id of the task that a line is for, None when it is for none in particular. Raises ``Refused``."""
    if line.number is None:
        return None
    label = labels.numbered(line.number)
    if label is None:
        raise Refused(f"there is no task {line.number}: /tasks lists them")
    return label.task_id


async def task_lines(inspection: Inspection, session_id: str, labels: TaskLabels, style: Style) -> list[str]:
    """The session's newest tasks, each with number, status, age and name. Raises ``ClientError``."""
    tasks = await inspection.tasks(session_id=session_id, limit=TASKS_SHOWN)
    labels.meet(tasks)
    return [_line(task, labels, style) for task in reversed(tasks)] or ["no tasks yet"]


def _line(task: Task, labels: TaskLabels, style: Style) -> str:
    words = f"{task.status.ljust(_STATUS_COLUMNS)}  {ago(task.updated_at).ljust(_AGE_COLUMNS)}"
    about = task.problem if isinstance(task, UnreadableTask) else ", ".join(task.waiting_for)
    return f"{words}  {labels.tag(task.task_id)} {style.dim(one_line(about, width() // 3))}".rstrip()
