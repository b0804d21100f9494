"""The activity of several tasks, told in one line."""

from typing import Protocol


class Waiting(Protocol):
    """Shows the line of waiting."""

    def show(self, label: str, since: float | None = None) -> None:
        """Say what is waited for, from now on or since a time of the monotonic clock; nothing when empty."""

    def hold(self, held: bool) -> None:
        """While held nothing is drawn: a line of text is only half written."""

    def clear(self) -> None:
        """Make room for a line of output."""


class WaitingTogether:
    """The activity of each task of a conversation, shown on one line."""

    def __init__(self, line: Waiting) -> None:
        self._line = line
        self._doing: dict[str, tuple[str, float | None]] = {}
        self._speaking: set[str] = set()

    def show(self, task: str, label: str, since: float | None) -> None:
        """Set the activity of this task; an empty text ends it."""
        if label:
            self._doing[task] = (label, since)
        else:
            self._doing.pop(task, None)
        self._draw(since)

    def hold(self, task: str, held: bool) -> None:
        """This task's text stands half written: that says enough of it."""
        if held:
            self._speaking.add(task)
        else:
            self._speaking.discard(task)
        self._draw(None)
        self._line.hold(bool(self._speaking))

    def clear(self) -> None:
        """Make room for a line of output."""
        self._line.clear()

    def _draw(self, since: float | None) -> None:
        labels = [label for label, _ in self._doing.values()]
        if len(labels) > 1:
            self._line.show(f"{len(labels)} tasks: {', '.join(dict.fromkeys(labels))}")
        elif labels:
            ((label, began),) = self._doing.values()
            self._line.show(label, began if since is None else since)
        else:
            self._line.show("")


class WaitingOfTask:
    """One task's part of it."""

    def __init__(self, together: WaitingTogether, task: str) -> None:
        self._together, self._task = together, task

    def show(self, label: str, since: float | None = None) -> None:
        self._together.show(self._task, label, since)

    def hold(self, held: bool) -> None:
        self._together.hold(self._task, held)

    def clear(self) -> None:
        self._together.clear()
