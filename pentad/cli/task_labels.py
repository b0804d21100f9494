"""Labels of a conversation's tasks: a number, a short name from the goal, a colour that stays."""

from collections.abc import Iterable
from dataclasses import dataclass

from pentad.cli.render import Style, one_line
from pentad.contracts.records import Task

_LENGTH = 24
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class TaskLabel:
    """How a task is called in one conversation."""

    number: int
    task_id: str
    name: str = ""
    """From its goal; empty while that is not known."""

    @property
    def text(self) -> str:
        """``1 bake a cake``: the number makes it unique."""
        return f"{self.number} {self.name}".rstrip()


class TaskLabels:
    """The tasks of a conversation in the order in which it met them."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._known: dict[str, TaskLabel] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, task_id: str) -> TaskLabel:
        """The task's; met now if it was not before."""
        return self._known.setdefault(task_id, TaskLabel(len(self._known) + 1, task_id))

    def called(self, task_id: str, goal: str) -> TaskLabel:
        """Return the label of a task whose goal is now known."""
        number = self.of(task_id).number
        label = self._known[task_id] = TaskLabel(number, task_id, one_line(goal, _LENGTH))
        return label

    def meet(self, tasks: Iterable[Task]) -> None:
        """Learn tasks as inspection lists them, the newest first."""
        for task in reversed([*tasks]):
            if task.parent_task_id is None or not self.of(task.task_id).name:  # such a one is called by its node
                self.called(task.task_id, task.goal)

    def numbered(self, number: str) -> TaskLabel | None:
        """The task that a person means by this number; None when there is none."""
        return next((label for label in self._known.values() if str(label.number) == number), None)

    def tag(self, task_id: str) -> str:
        """``[1 bake a cake]`` in the task's colour."""
        label = self.of(task_id)
        return self._style.nth(label.number - 1, f"[{label.text}]")
