"""The pane beside a conversation: what waits for the person, with the command that decides it, and the session's tasks.

It knows what is chosen in it, and which line of the prompt a key stands for. It draws itself as rows of text.
"""

import json
from collections.abc import Sequence
from typing import Literal

from pentad.cli.asked import values_asked
from pentad.cli.render import Style, ago, awaited, call_line, harmless, one_line
from pentad.cli.task_labels import TaskLabels
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.records import Task, UnreadableTask

PaneKey = Literal["approve", "refuse", "edit", "say", "cancel"]
_KEYS_OF_CALL = "a approve, r refuse, e edit"
_KEYS_OF_TASK = "Enter says something to it, x stops it"
_UNFOCUSED = "Tab: choose here"
_ENDED = ("completed", "failed", "cancelled")
_MAX_EDITED_CHARS = 4_000
"""Characters of arguments that are put into the prompt to be edited."""


class SidePane:
    """The tasks of a session and the calls that wait in it, and which of them is chosen."""

    def __init__(self, style: Style, labels: TaskLabels) -> None:
        self._style, self._labels = style, labels
        self._tasks: Sequence[Task] = ()
        self._waiting: Sequence[PendingApproval] = ()
        self._chosen: str | None = None
        """Id of the call or task that is chosen. When that has gone nothing is: a key must not mean the next one."""
        self.trouble = ""
        """Why what is shown may be old; empty while it is not."""

    def show(self, tasks: Sequence[Task], waiting: Sequence[PendingApproval]) -> None:
        """Take what there is now, tasks with the newest first. What was chosen stays chosen while it is there."""
        self._labels.meet(tasks)
        self._tasks = sorted(tasks, key=lambda task: task.status in _ENDED)
        self._waiting, self.trouble = waiting, ""
        if self._chosen not in self._ids():
            self._chosen = None

    def begin(self) -> None:
        """Choose the first row, if none is chosen."""
        if self._chosen is None:
            self.move(1)

    def move(self, by: int) -> None:
        """Choose the next row, or the one before; the first one where none is chosen."""
        if ids := self._ids():
            place = 0 if self._chosen is None else ids.index(self._chosen) + by
            self._chosen = ids[max(0, min(place, len(ids) - 1))]

    def line_for(self, key: PaneKey) -> str | None:
        """Return the line of the prompt that a key stands for; None where it means nothing for what is chosen.

        The person sees it there and sends it: a letter that was meant for the prompt decides nothing.
        """
        call = next((each for each in self._waiting if each.tool_call_id == self._chosen), None)
        if call is not None:
            return _line_for_call(call, key)
        task = next((each for each in self._tasks if each.task_id == self._chosen), None)
        if task is None:
            return None
        number = self._labels.of(task.task_id).number
        if key == "say":
            return f"/task {number} "
        return f"/cancel {number}" if key == "cancel" and task.status not in _ENDED else None

    def rows(self, columns: int, rows: int, *, focused: bool) -> list[str]:
        """Return at most so many rows, none longer than the columns apart from colours."""
        head = [self._style.red(one_line(self.trouble, columns))] if self.trouble else []
        calls = [line for each in self._waiting for line in self._call(each, columns, focused)]
        tasks = [self._task(each, columns, focused) for each in self._tasks]
        if calls:
            head += [self._style.yellow(one_line("WAITS FOR YOU", columns)), *calls, ""]
        lines = [*head, self._style.bold(one_line("TASKS", columns)), *(tasks or [self._style.dim("none yet")])]
        below = ["", *(self._style.dim(one_line(text, columns)) for text in self._help(focused))]
        return [*lines[: max(0, rows - len(below))], *below][:rows]

    def _help(self, focused: bool) -> list[str]:
        if not focused:
            return [_UNFOCUSED if self._ids() else ""]
        is_call = self._chosen in {each.tool_call_id for each in self._waiting}
        keys = "↑ ↓ choose" if self._chosen is None else _KEYS_OF_CALL if is_call else _KEYS_OF_TASK
        return [keys, "Tab: back to the prompt"]

    def _call(self, call: PendingApproval, columns: int, focused: bool) -> list[str]:
        mark, until = self._mark(call.tool_call_id, focused), call.expires_at[11:16]
        tag = self._labels.of(call.task_id)
        what = one_line(f"{tag.number}: {call_line(call.tool, call.args, 2 * columns)}", columns - 2)
        why = f"until {until} UTC" + (f": {call.reason}" if call.reason else "")
        below = [one_line(text, columns - 2) for text in (why, f"/approve {call.tool_call_id}")]
        return [f"{mark} {self._style.nth(tag.number - 1, what)}", *(f"  {self._style.dim(text)}" for text in below)]

    def _task(self, task: Task, columns: int, focused: bool) -> str:
        about = task.problem if isinstance(task, UnreadableTask) else awaited(task)
        label = self._labels.of(task.task_id)
        tag = one_line(f"[{label.text}]", columns - 2)
        left = columns - 2 - len(tag) - 1
        rest = one_line(f"{task.status} {ago(task.updated_at)} {about}", left) if left > 0 else ""
        shown = self._style.nth(label.number - 1, tag) if task.status not in _ENDED else self._style.dim(tag)
        about_it = f" {self._style.dim(rest) if task.status in _ENDED else rest}" if rest else ""
        return f"{self._mark(task.task_id, focused)} {shown}{about_it}"

    def _mark(self, name: str, focused: bool) -> str:
        return self._style.bold(">") if focused and name == self._chosen else " "

    def _ids(self) -> list[str]:
        return [*(each.tool_call_id for each in self._waiting), *(each.task_id for each in self._tasks)]


def _line_for_call(call: PendingApproval, key: PaneKey) -> str | None:
    name, asks_values = call.tool_call_id, call.needs != "approval" and bool(values_asked(call))
    if key == "refuse":
        return f"/refuse {name} "
    if key == "approve" and not asks_values:
        return f"/approve {name}"
    if key not in ("approve", "edit"):
        return None
    given = values_asked(call) if asks_values else call.args
    text = harmless(json.dumps(given, ensure_ascii=False))
    return f"/approve {name} {text if len(text) <= _MAX_EDITED_CHARS else ''}"
