"""A task as a person sees it: text as it comes, and one line for everything else that happens."""

import time
from dataclasses import dataclass, field

from pentad.cli.asked import asked_lines
from pentad.cli.lines import Out
from pentad.cli.markdown import Prose
from pentad.cli.render import APPLICATION, Style, call_line, harmless, one_line, result_line, width
from pentad.cli.waiting_for import Waiting
from pentad.client.text import Piece, Shown, answer_in, show
from pentad.contracts.events import (
    INTERRUPTED,
    ApprovalEvent,
    ApprovalRequest,
    Content,
    MessageEvent,
    NodeStart,
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
from pentad.contracts.turns import NEEDS_CLIENT


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A running tool call: how it reads, and since when it runs (monotonic clock)."""

    line: str
    since: float = field(default_factory=time.monotonic)


_NOT_WHOLE = {
    INTERRUPTED: "interrupted by a new message",
    "length": "cut off: the model reached its limit of tokens",
    "content_filter": "refused, or withheld by the model's server",
}
"""Remarks under an incomplete answer, by finish reason."""


class TaskView:
    """Draws the events of one task, its turns one after the other.

    ``live``: text appears as it is made, and a void attempt is withdrawn visibly; otherwise whole messages only.
    """

    def __init__(self, task_id: str, out: Out, style: Style, progress: Waiting, prose: Prose, *, live: bool) -> None:
        self._task_id = task_id
        self._out = out
        self._style = style
        self._progress = progress
        self._prose = prose
        self._live = live
        self._shown = Shown()
        self._mid_line = False
        self._calls: dict[str, ShownCall] = {}

    def show(self, event: SessionEvent) -> None:
        """Draw one event."""
        match event:
            case Content() | MessageEvent():
                self._text(event)
            case NodeStart():
                self.line(self._style.dim(f"▸ {event.node}"))
            case TaskStart() | Thinking():
                self._progress.show("thinking")
            case ToolCallEvent() | ToolProgress() | ToolResultEvent() | ApprovalRequest():
                self._tool(event)
            case ApprovalEvent():
                self._decision(event)
            case TaskStatusEvent() | TaskEnd():
                self._status(event)
            case Snapshot():
                self._gap(event)

    def thinks(self) -> None:
        """A message went to it."""
        self._progress.show("thinking")

    def resume(self) -> None:
        """Show a task that had begun before this conversation was joined; its events follow."""
        self._progress.show("working")

    def ended(self) -> None:
        """Show no more of its work: it has ended or waits, and why has been told."""
        self.end_line()
        self._calls.clear()
        self._progress.show("")

    def line(self, text: str) -> None:
        """A line of its own, whatever stands in the current one."""
        self.end_line()
        self._write(text + "\n")

    def _text(self, event: Content | MessageEvent) -> None:
        if isinstance(event, Content) and not self._live:
            self._progress.show("answering")
            return
        self._shown, piece = show(self._shown, event)
        self._piece(piece)
        if isinstance(event, MessageEvent):
            if (why := _NOT_WHOLE.get(event.finish_reason or "")) is not None:
                self.line(self._style.dim(f"… {why}"))
            self.end_line()
            self._prose.reset()
            self._progress.show("working")

    def _piece(self, piece: Piece) -> None:
        if piece.restart:
            self._prose.reset()
            self.line(self._style.dim("… answer restarted"))
        self._say(self._prose.feed(harmless(piece.text)))

    def _say(self, text: str) -> None:
        if text:
            self._write(text)
            self._mid_line = not text.endswith("\n")
            self._progress.hold(self._mid_line)

    def _tool(self, event: ToolCallEvent | ToolProgress | ToolResultEvent | ApprovalRequest) -> None:
        name, columns = harmless(event.tool), width()
        match event:
            case ToolCallEvent():
                call = self._calls[event.tool_call_id] = ShownCall(call_line(event.tool, event.args, columns))
                self.end_line()
                if event.client:
                    self.line(self._style.yellow(f"? {call.line} {APPLICATION}"))
                    self.line(self._style.dim(f"  pentad result {event.task_id} {event.tool_call_id} TEXT answers it"))
                self._progress.show(f"running {name}")
            case ToolProgress():
                since = self._calls.setdefault(event.tool_call_id, ShownCall(name)).since
                share = f" {event.fraction:.0%}" if event.fraction is not None else ""
                told = one_line(event.content, columns // 2)
                self._progress.show(f"running {name}{share}" + (f": {told}," if told else ""), since)
            case ApprovalRequest():
                self.line(self._style.yellow(f"? {call_line(event.tool, event.args, columns)} waits for approval"))
                if event.needs not in (None, "approval"):
                    self.line(self._style.yellow("\n".join(asked_lines(event))))
            case ToolResultEvent():
                call = self._calls.pop(event.tool_call_id, ShownCall(name))
                self.line(self._style.dim("⚙ " + result_line(call.line, event, columns - 2)))
                first = min((running.since for running in self._calls.values()), default=None)
                self._progress.show(f"running {len(self._calls)} more" if self._calls else "thinking", first)

    def _decision(self, event: ApprovalEvent) -> None:
        what = "approved" if event.approved else event.reason if event.by is None else "refused"
        self.line(self._style.dim(f"{event.tool_call_id} {what}{f' by {harmless(event.by)}' if event.by else ''}"))

    def _status(self, event: TaskStatusEvent | TaskEnd) -> None:
        why = [event.reason, event.detail if isinstance(event, TaskEnd) else None]
        reason = "".join(f": {harmless(part)}" for part in why if part and part != event.status)
        if event.status == "waiting":
            what = APPLICATION if event.reason == NEEDS_CLIENT else f"waiting for you{reason}"
            self.line(self._style.yellow(what))
        elif event.status == "stale":
            self.line(self._style.yellow(f"stale{reason}"))
        elif event.status == "failed":
            self.line(self._style.red(f"failed{reason}"))
        elif event.status == "cancelled":
            self.line(self._style.dim(f"cancelled{reason}"))
        elif event.status == "active" and reason:
            self.line(self._style.dim(f"working on{reason}"))
        elif event.status == "pending":
            self.line(self._style.dim(f"waits for its turn{reason}"))
        if isinstance(event, TaskEnd) or event.status in ("waiting", "pending"):
            self.ended()
            return
        self.end_line()
        if event.status == "active":
            self._progress.show("working")

    def _gap(self, snapshot: Snapshot) -> None:
        answer = answer_in(snapshot, self._task_id)
        if answer and not (self._shown.whole and self._shown.text == answer):
            self.end_line()
            self._prose.reset()
            self._say(self._prose.feed(harmless(answer) + "\n"))
            self._prose.reset()

    def end_line(self) -> None:
        """End the line where it is unfinished."""
        self._say(self._prose.end_line())
        if self._mid_line:
            self._write("\n")
            self._mid_line = False
        self._progress.hold(False)

    def _write(self, text: str) -> None:
        self._progress.clear()
        self._out.write(text)
        self._out.flush()
