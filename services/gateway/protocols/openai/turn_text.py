"""The events of a turn as one text that only grows, for clients that cannot take back what they were sent. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import (
    ApprovalEvent,
    ApprovalRequest,
    Content,
    ControlResult,
    ErrorEvent,
    MessageEvent,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskUsage,
    Thinking,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from pentad.contracts.turns import ASKED, NEEDS_APPROVAL, NEEDS_CLIENT, TurnEnd, TurnTracker
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.shared.immutable import immutable

_APART = "\n\n"
RESTARTED = "\n\n(restarted)\n\n"
"""Text behind what a broken attempt has said, which counts no more."""
_SHOWN_ARGS = 500
"""Characters of a tool call's arguments that a question about it shows."""


@immutable
class TextPiece:
    """A piece of the answer."""

    text: str
    restarts: bool = False
    """Whether what was said of the step before this piece is void."""
    at: tuple[int, int] = (0, 0)
    """Step and attempt that have said it."""


@immutable
class ThoughtPiece:
    """A piece of the model's reasoning."""

    text: str


@immutable
class Activity:
    """An event of the turn that is no text."""

    event: SessionEvent
    status: str = ""
    """The event in a few words, for people; '' for one that they need not see."""
    is_done: bool = False

    @property
    def shown(self) -> dict[str, Any]:
        """The event as clients of our own interface get it."""
        return self.event.model_dump(mode="json", exclude_none=True)


@immutable
class ClientCall:
    """A call of a client's tool: the turn stops for its result."""

    number: int
    """Place among the calls of the turn."""
    id: str
    tool: str
    arguments: str
    """Arguments as JSON."""
    ref: str | None = None
    """Name under which the arguments are kept whole, if they were cut."""


Piece = TextPiece | ThoughtPiece | Activity | ClientCall


@dataclass
class GrowingText:
    """The text of a turn. ``whole``: nothing is told before the last step's answer, which is told alone."""

    turn: TurnTracker
    whole: bool = False
    text: str = ""
    """Everything that was told as text."""
    task: str = ""
    """Task of the last answer."""
    first_step: int = 0
    """First step of that task in this turn; 0 before any."""
    step: int = 0
    """Step of the last answer; 0 before any."""
    finish: str | None = None
    """Reason why the model stopped, of the last answer."""
    model: str | None = None
    usage: TaskUsage | None = None
    """Usage of the whole task that its end has told."""
    ref: str | None = None
    """Name under which the last answer is kept whole, if it was cut."""
    _at: tuple[int, int] = (0, 0)
    """Step and attempt of the text that is being written."""
    _written: str = ""
    """Text of that attempt that was told."""
    _thought: int = 0
    """Characters of that attempt's thoughts that were told."""
    _answer: str = ""
    """Last answer, where only that is told."""
    _asked: dict[str, ApprovalRequest | PendingApproval] = field(default_factory=dict)
    _calls: dict[str, ToolCallEvent] = field(default_factory=dict)
    """Calls of the client's tools without a result."""

    @property
    def end(self) -> TurnEnd | None:
        """End of the turn; None while it goes on."""
        return self.turn.end

    @property
    def calls(self) -> list[ClientCall]:
        """The calls of the client's tools for which the turn has stopped; none while it goes on."""
        if self.end is None or self.end.outcome != "waiting":
            return []
        return [_client_call(number, event) for number, event in enumerate(self._calls.values())]

    def after(self, event: Mapping[str, Any]) -> list[Piece]:
        """Return what the session's next event adds; nothing for an event of another turn."""
        known = known_event(event)
        if self.end is not None or known is None or not self.turn.concerns(known):
            return []
        self.turn = self.turn.after(known)
        made = list(self._made(known))
        return made if self.end is None else [*made, *self._last()]

    def asks(self, request: PendingApproval) -> None:
        """Note a call that waits for a decision, of which no event of this turn has told."""
        self._asked[request.tool_call_id] = request

    @property
    def asked(self) -> bool:
        """Whether a call is known that waits for a decision."""
        return bool(self._asked)

    def settled(self, task: Mapping[str, Any]) -> list[Piece]:
        """Return what ends a turn whose end was not seen, after a look at its task."""
        if self.end is not None:
            return []
        self.turn = self.turn.settled(task)
        return [] if self.end is None else list(self._last())

    def add(self, text: str) -> TextPiece:
        """Return a piece of the answer, which is a part of its text from now on."""
        self.text += text
        return TextPiece(text, at=self._at)

    def _made(self, event: SessionEvent) -> Iterator[Piece]:
        own = event.parent_task_id is None
        match event:
            case Content() | Thinking() if own:
                yield from self._delta(event)
            case MessageEvent() if own:
                yield from self._message(event)
            case Content() | Thinking() | MessageEvent():
                return
            case ControlResult():
                yield self.add(self._gap() + event.content)
            case Snapshot():
                yield from self._from_snapshot(event)
            case _:
                self._note(event)
                yield _activity(event)

    def _note(self, event: SessionEvent) -> None:
        if isinstance(event, ApprovalRequest):
            self._asked[event.tool_call_id] = event
        elif isinstance(event, ApprovalEvent):
            self._asked.pop(event.tool_call_id, None)
        elif isinstance(event, ToolCallEvent) and event.client:
            self._calls[event.tool_call_id] = event
        elif isinstance(event, ToolResultEvent):
            self._calls.pop(event.tool_call_id, None)
        elif isinstance(event, TaskEnd) and event.parent_task_id is None:
            self.usage = event.usage

    def _delta(self, event: Content | Thinking) -> Iterator[Piece]:
        if self.whole and isinstance(event, Content):
            return
        yield from self._begun(event.step, event.attempt)
        if isinstance(event, Thinking):
            if event.offset == self._thought and event.content:
                self._thought += len(event.content)
                yield ThoughtPiece(event.content)
        elif event.offset == len(self._written) and event.content:  # after a hole the message has all of it
            yield from self._write(event.content)

    def _begun(self, step: int, attempt: int) -> Iterator[Piece]:
        """Begin a step or an attempt, unless it has begun; what an attempt before has said is void."""
        if self._at == (step, attempt):
            return
        is_void = bool(self._written) and self._at[0] == step
        self._at, self._written, self._thought = (step, attempt), "", 0
        if is_void:
            yield self._restarted()

    def _restarted(self) -> TextPiece:
        self.text += RESTARTED
        self._written = ""
        return TextPiece(RESTARTED, restarts=True, at=self._at)

    def _write(self, text: str) -> Iterator[Piece]:
        if not text:
            return
        before = "" if self._written else self._gap()
        self._written += text
        yield self.add(before + text)

    def _gap(self) -> str:
        """Texts of two steps are kept apart."""
        return "" if not self.text or self.text.endswith("\n\n") else _APART

    def _message(self, event: MessageEvent) -> Iterator[Piece]:
        if event.task_id != self.task:
            self.task, self.first_step = event.task_id or "", event.step
        self.step, self.finish, self.model, self.ref = event.step, event.finish_reason, event.model, event.ref
        if self.whole:
            self._answer = event.content
            return
        yield from self._begun(event.step, event.attempt)
        if not event.content.startswith(self._written):
            yield self._restarted()
        yield from self._write(event.content[len(self._written) :])

    def _from_snapshot(self, snapshot: Snapshot) -> Iterator[Piece]:
        """Take the answer from the snapshot, because the event with it is lost."""
        said = [m for m in snapshot.messages if m.get("task_id") == self.turn.task_id and m.get("role") == "assistant"]
        answer = str(said[-1].get("content") or "") if said and self.end is not None else ""
        if self.whole:
            self._answer = answer or self._answer
        elif answer and not self.text.endswith(answer):
            if self._written:
                yield self._restarted()
            yield from self._write(answer)

    def _last(self) -> Iterator[Piece]:
        """Return what is told at the end: what the task waits for, or the answer that was held back."""
        end = self.end
        if self.whole and self._answer:
            yield self.add(self._answer)
        yield from self.calls
        if (
            end is None
            or end.outcome != "waiting"
            or (end.reason == ASKED and self.text)
            or (end.reason == NEEDS_CLIENT and self.calls)
        ):
            return
        asked = list(self._asked.values())
        if end.reason == NEEDS_APPROVAL and asked:
            yield self.add(self._gap() + _APART.join(map(_question, asked)))
        else:
            yield self.add(f"{self._gap()}(The task waits: {end.reason or 'for you'}.)")


def _client_call(number: int, event: ToolCallEvent) -> ClientCall:
    arguments = event.args if isinstance(event.args, str) else to_json(event.args).decode()
    return ClientCall(number, event.tool_call_id, event.tool, arguments, event.ref)


def _question(request: ApprovalRequest | PendingApproval) -> str:
    """Return a tool call that waits for a person as a question that the next message can answer."""
    args = request.args if isinstance(request.args, str) else to_json(request.args).decode()
    shown = args if len(args) <= _SHOWN_ARGS else args[:_SHOWN_ARGS] + "…"
    why = f" {request.reason}" if request.reason else ""
    how = "Answer with the values that are asked for." if request.form is not None else "Answer yes or no."
    return f"`{request.tool}` waits for you:{why} {how}\n\n    {shown}"


def _activity(event: SessionEvent) -> Activity:
    match event:
        case ToolCallEvent():
            return Activity(event, event.tool)
        case ToolProgress():
            return Activity(event, f"{event.tool}: {event.content}" if event.content else event.tool)
        case ToolResultEvent():
            return Activity(event, event.tool if event.error is None else f"{event.tool} failed", is_done=True)
        case ErrorEvent():
            return Activity(event, event.message, is_done=True)
        case _:
            return Activity(event)
