"""A conversation as a person sees it: several tasks at once, whose text is whose, and where messages go."""

from collections.abc import Sequence

from pentad.cli.lines import Lines, Speaker, Tag
from pentad.cli.markdown import Markdown, Verbatim
from pentad.cli.render import Style, harmless, one_line, width
from pentad.cli.task_labels import TaskLabels
from pentad.cli.view import TaskView
from pentad.cli.waiting_for import Waiting, WaitingOfTask, WaitingTogether
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    Compacted,
    ControlResult,
    ErrorEvent,
    MessageMoved,
    MessageRouted,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
)

_ROUTES = {"append": "added to", "reopen": "reopened", "new": "new"}
_LEAST_REASON = 60
"""Characters of a reason that are shown in however narrow a window."""
_NO_TASK = ""
"""Who speaks when it is no task."""


class SessionView:
    """Draws the events of a session. Alone, a task's lines stand as they are; beside others they say whose they are.

    ``live``: text appears as it is made, and a void attempt is withdrawn visibly; otherwise whole messages only.
    ``markdown``: an answer is shown as its Markdown means it; otherwise as the model wrote it.
    """

    def __init__(
        self,
        lines: Lines,
        style: Style,
        progress: Waiting,
        labels: TaskLabels | None = None,
        *,
        live: bool,
        markdown: bool = False,
    ) -> None:
        """``labels``: those that others use for the same tasks."""
        self._lines = lines
        self._style = style
        self._progress = progress
        self._live, self._markdown = live, markdown
        self._together = WaitingTogether(progress)
        self._views: dict[str, TaskView] = {}
        self._working: set[str] = set()
        self._several = False
        """Tasks have worked at the same time, and not all have ended since."""
        self.labels = TaskLabels(style) if labels is None else labels
        self.spoken_to: str | None = None
        """The task that the last message went to."""
        self.shown_last: str | None = None
        """The task of which something was shown last."""
        self._error_told: ErrorEvent | None = None

    def show(self, event: SessionEvent) -> None:
        """Draw one event."""
        match event:
            case MessageRouted():
                self._routed(event)
            case MessageMoved():
                self._moved(event)
            case Compacted():
                self._compacted(event)
            case ControlResult():
                self._controlled(event)
            case ErrorEvent():
                self._error(event)
            case Snapshot():
                for view in self._views.values():
                    view.show(event)
            case _ if event.task_id is not None:
                self._of_task(event, event.task_id)

    def resume(self, task_ids: Sequence[str]) -> None:
        """Say what ran before we came; its events follow."""
        for task_id in task_ids:
            self.spoken_to = task_id
            self._works(task_id)
            tag = f" {self.labels.tag(task_id)}" if len(task_ids) > 1 else ""
            self.line(self._style.dim(f"→ task {task_id}{tag} is still running"))
        for task_id in task_ids:
            self._view(task_id).resume()

    def line(self, text: str) -> None:
        """Show a line that is no task's."""
        self._progress.clear()
        self._lines.put(_NO_TASK, text + "\n", str)

    def put(self, speaker: str, text: str, tag: Tag) -> None:
        """Show text of a task. See ``Lines``."""
        self.shown_last = speaker
        self._lines.put(speaker, text, tag)

    def halt(self) -> None:
        """End every unfinished line: nothing more is drawn of the tasks."""
        for view in self._views.values():
            view.end_line()

    def _of_task(self, event: SessionEvent, task_id: str) -> None:
        if isinstance(event, TaskStart):
            self.labels.called(task_id, event.node if event.parent_task_id is not None and event.node else event.goal)
            self._works(task_id)
        if isinstance(event, TaskEnd) and self._is_told(event):
            self._view(task_id).ended()
        else:
            self._view(task_id).show(event)
        if isinstance(event, TaskStatusEvent) and event.status == "active":
            self._works(task_id)
        elif isinstance(event, TaskEnd | TaskStatusEvent):
            self._rests(task_id)

    def _is_told(self, end: TaskEnd) -> bool:
        """Whether the error before it has just said why the task has ended."""
        told = self._error_told
        if told is None or end.status != "failed" or end.reason != told.code or told.task_id not in (None, end.task_id):
            return False
        return end.detail is None or told.message.startswith(end.detail)

    def _works(self, task_id: str) -> None:
        self._working.add(task_id)
        self._several = self._several or len(self._working) > 1

    def _rests(self, task_id: str) -> None:
        self._working.discard(task_id)
        self._several = self._several and bool(self._working)

    def _view(self, task_id: str) -> TaskView:
        if task_id not in self._views:
            out = Speaker(self, task_id, lambda: self._tag(task_id))
            waiting = WaitingOfTask(self._together, task_id)
            prose = Markdown(self._style) if self._markdown else Verbatim()
            self._views[task_id] = TaskView(task_id, out, self._style, waiting, prose, live=self._live)
        return self._views[task_id]

    def _tag(self, task_id: str) -> str:
        beside = self._several or self.spoken_to not in (None, task_id)
        return self.labels.tag(task_id) if beside else ""

    def _routed(self, event: MessageRouted) -> None:
        if event.decision == "rejected":
            self._progress.show("")
            self.line(self._style.red(f"not taken: {harmless(event.reason)}"))
            return
        if event.decision == "control" or event.task_id is None:
            return
        if event.decision != "append" or event.task_id != self.spoken_to:
            self.line(self._gone_to(event, event.task_id))
        self.spoken_to = self.shown_last = event.task_id
        self._view(event.task_id).thinks()

    def _gone_to(self, event: MessageRouted, task_id: str) -> str:
        """Which task got the message, and why: by its name where it has one and there are others, else by its id."""
        way, label = f"→ {_ROUTES[event.decision]} task ", self.labels.of(task_id)
        named = label.name != "" and len(self.labels) > 1
        left = width() - len(way) - len(f"[{label.text}]" if named else task_id) - len(" ()")
        why = f" ({one_line(event.reason, max(_LEAST_REASON, left))})" if event.reason else ""
        if named:
            return self._style.dim(way) + self.labels.tag(task_id) + self._style.dim(why)
        return self._style.dim(way + task_id + why)

    def _moved(self, event: MessageMoved) -> None:
        self.spoken_to = event.to_task_id
        where = self._called(event.to_task_id)
        self.line(self._style.dim(f"→ message {event.message_id} went to task ") + where)
        if event.effects:
            did = ", ".join(dict.fromkeys(effect.tool for effect in event.effects))
            self.line(self._style.red(f"  what it did before stays: {harmless(did)}"))
        if event.emptied:
            self.line(self._style.dim(f"  task {self._called(event.from_task_id)} has no message left: cancelled"))

    def _compacted(self, event: Compacted) -> None:
        sizes = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
        self.line(self._style.dim(f"… what was said up to message {event.last} goes on in short: {sizes}"))

    def _called(self, task_id: str) -> str:
        return self.labels.tag(task_id) if self.labels.of(task_id).name else task_id

    def _controlled(self, event: ControlResult) -> None:
        self._progress.show("")
        tag = f"{self.labels.tag(event.task_id)} " if event.task_id and len(self.labels) > 1 else ""
        self.line(tag + harmless(event.content))

    def _error(self, event: ErrorEvent) -> None:
        if event.code == ErrorCode.CURSOR_EXPIRED:
            self.line(self._style.dim("… was away too long: some of what happened is not shown"))
            return
        self._error_told = event
        again = f" (try again in {event.retry_after:g} s)" if event.retry_after is not None else ""
        self.line(self._style.red(f"{event.code}: {harmless(event.message)}{again}"))
