"""A turn as a person sees it: text as it comes, and one line for everything else that happens."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    ApprovalRequest,
    Content,
    ErrorEvent,
    MessageEvent,
    MessageMoved,
    MessageRouted,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
    Thinking,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from pentad.render import Style, call_line, harmless, one_line, result_line, width
from pentad.text import Piece, Shown, answer_in, show

_ROUTES = {"append": "added to", "reopen": "reopened", "new": "new"}


class Out(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Waiting(Protocol):
    """What says that something is waited for."""

    def show(self, label: str, since: float | None = None) -> None:
        """Say what is waited for, from now on or since a time of the monotonic clock; nothing when empty."""

    def hold(self, held: bool) -> None:
        """While held nothing is drawn: a line of text is only half written."""

    def clear(self) -> None:
        """Make room for a line of output."""


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A running tool call: how it reads, and since when it runs (monotonic clock)."""

    line: str
    since: float = field(default_factory=time.monotonic)


class TurnView:
    """Draws the events of a session's turns, one after the other.

    ``live``: text appears as it is made, and a void attempt is withdrawn visibly; otherwise whole messages only.
    """

    def __init__(self, out: Out, style: Style, progress: Waiting, *, live: bool) -> None:
        self._out = out
        self._style = style
        self._progress = progress
        self._live = live
        self._shown = Shown()
        self._mid_line = False
        self._calls: dict[str, ShownCall] = {}
        self._task_id: str | None = None

    def show(self, event: SessionEvent) -> None:
        """Draw one event."""
        match event:
            case MessageRouted():
                self._routed(event)
            case MessageMoved():
                self.line(self._style.dim(f"→ message {event.message_id} went to task {event.to_task_id}"))
            case Content() | MessageEvent():
                self._text(event)
            case TaskStart() | Thinking():
                self._progress.show("thinking")
            case ToolCallEvent() | ToolProgress() | ToolResultEvent() | ApprovalRequest():
                self._tool(event)
            case TaskStatusEvent() | TaskEnd():
                self._status(event)
            case Snapshot():
                self._gap(event)
            case ErrorEvent():
                self._error(event)

    def resume(self, task_ids: Sequence[str]) -> None:
        """Say what ran before we came; its events follow."""
        for task_id in task_ids:
            self.line(self._style.dim(f"→ task {task_id} is still running"))
            self._task_id = task_id
        self._progress.show("working")

    def line(self, text: str) -> None:
        """A line of its own, whatever stands in the current one."""
        self._end_line()
        self._write(text + "\n")

    def _text(self, event: Content | MessageEvent) -> None:
        if isinstance(event, Content) and not self._live:
            self._progress.show("answering")
            return
        self._shown, piece = show(self._shown, event)
        self._piece(piece)
        if isinstance(event, MessageEvent):
            self._end_line()
            self._progress.show("working")

    def _piece(self, piece: Piece) -> None:
        if piece.restart:
            self.line(self._style.dim("… answer restarted"))
        if text := harmless(piece.text):
            self._write(text)
            self._mid_line = not text.endswith("\n")
            self._progress.hold(self._mid_line)

    def _routed(self, event: MessageRouted) -> None:
        switched = event.task_id != self._task_id
        self._progress.show("thinking")
        if event.decision == "rejected":
            self.line(self._style.red(f"not taken: {harmless(event.reason)}"))
        elif switched or event.decision != "append":
            why = f" ({one_line(event.reason, 60)})" if event.reason else ""
            word = "new task" if event.decision == "new" else f"{_ROUTES[event.decision]} task"
            self.line(self._style.dim(f"→ {word} {event.task_id}{why}"))
        self._task_id = event.task_id or self._task_id

    def _tool(self, event: ToolCallEvent | ToolProgress | ToolResultEvent | ApprovalRequest) -> None:
        name, columns = harmless(event.tool), width()
        match event:
            case ToolCallEvent():
                self._calls[event.tool_call_id] = ShownCall(call_line(event.tool, event.args, columns))
                self._end_line()
                self._progress.show(f"running {name}")
            case ToolProgress():
                since = self._calls.setdefault(event.tool_call_id, ShownCall(name)).since
                share = f" {event.fraction:.0%}" if event.fraction is not None else ""
                told = one_line(event.content, columns // 2)
                self._progress.show(f"running {name}{share}" + (f": {told}," if told else ""), since)
            case ApprovalRequest():
                self.line(self._style.yellow(f"? {call_line(event.tool, event.args, columns)} waits for approval"))
            case ToolResultEvent():
                call = self._calls.pop(event.tool_call_id, ShownCall(name))
                self.line(self._style.dim("⚙ " + result_line(call.line, event, columns - 2)))
                first = min((running.since for running in self._calls.values()), default=None)
                self._progress.show(f"running {len(self._calls)} more" if self._calls else "thinking", first)

    def _status(self, event: TaskStatusEvent | TaskEnd) -> None:
        reason = f": {harmless(event.reason)}" if event.reason else ""
        if event.status == "waiting":
            self.line(self._style.yellow(f"waiting for you{reason}"))
        elif event.status == "stale":
            self.line(self._style.yellow(f"stale{reason}"))
        elif event.status == "failed":
            self.line(self._style.red(f"failed{reason}"))
        elif event.status == "cancelled":
            self.line(self._style.dim(f"cancelled{reason}"))
        elif event.status == "active" and reason:
            self.line(self._style.dim(f"working on{reason}"))
        self._end_line()
        if isinstance(event, TaskEnd) or event.status == "waiting":
            self._calls.clear()
            self._progress.show("")

    def _gap(self, snapshot: Snapshot) -> None:
        answer = answer_in(snapshot, self._task_id)
        if answer and not (self._shown.whole and self._shown.text == answer):
            self.line(harmless(answer))

    def _error(self, event: ErrorEvent) -> None:
        if event.code == ErrorCode.CURSOR_EXPIRED:
            self.line(self._style.dim("… was away too long: some of what happened is not shown"))
            return
        again = f" (try again in {event.retry_after:g} s)" if event.retry_after is not None else ""
        self.line(self._style.red(f"{event.code}: {harmless(event.message)}{again}"))

    def _end_line(self) -> None:
        if self._mid_line:
            self._write("\n")
            self._mid_line = False
        self._progress.hold(False)

    def _write(self, text: str) -> None:
        self._progress.clear()
        self._out.write(text)
        self._out.flush()
