"""The events of a turn as the updates of a task of A2A 1.0. Pure.

The text of a step is one artifact. A client that joins its pieces can take none back: the first piece of another
attempt replaces the artifact, and so does the whole text wherever pieces are missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a.types.a2a_pb2 import (
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import (
    Content,
    ControlResult,
    ErrorEvent,
    MessageEvent,
    MessageRouted,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskStatusEvent,
    Thinking,
    ToolResultEvent,
)
from pentad.contracts.turns import TurnEnd, TurnTracker
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.services.gateway.protocols.a2a.task_view import (
    artifact_id,
    file_artifact,
    plain_status,
    state_of,
    struct_of,
    timestamp_of,
    waiting_status,
)

Update = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""An update in a stream of A2A, beside single messages."""


@dataclass
class _StepText:
    """The text of a step as far as the client has it."""

    attempt: int
    text: str


@dataclass
class A2aRun:
    """A turn of a task as its client sees it. ``address``: that of the gateway."""

    session: str
    turn: TurnTracker
    address: str
    task: str | None = None
    """Task of the run, once it is known; it stays the same."""
    end: TurnEnd | None = None
    said: str = ""
    """Text of the last message."""
    answer: str | None = None
    """Answer to a message that has asked for an action on a task, and so has no task of its own."""
    controls: bool = False
    """Whether the message asks for an action on a task, and so begins no turn of it."""
    _texts: dict[int, _StepText] = field(default_factory=dict)
    """Texts of steps that the client has a part of, by step."""

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.end is not None

    def concerns(self, event: Mapping[str, Any]) -> SessionEvent | None:
        """Return an event of this run; None for one of another turn, or of a later version."""
        known = known_event(event)
        return known if known is not None and not self.over and self.turn.concerns(known) else None

    def after(self, event: SessionEvent) -> list[Update]:
        """Return the updates for the next event of this run, without those of its end."""
        if isinstance(event, MessageRouted) and event.decision == "control":
            self.controls = True
        if self.controls:
            self._after_control(event)
            return []
        self.turn = self.turn.after(event)
        self.task = self.task or self.turn.task_id
        made = list(self._translated(event))
        self.end = self.turn.end
        if isinstance(event, TaskEnd) and event.task_id == self.task and self.end is None and not event.queues:
            self.end = TurnEnd(event.status, event.reason, event.detail or "")
        return made

    def _after_control(self, event: SessionEvent) -> None:
        """Wait for what came of an action: the end of the task that it is about is not that of the run."""
        if isinstance(event, ControlResult):
            self.answer, self.end = event.content, TurnEnd("completed")
        elif isinstance(event, ErrorEvent) and event.message_id == self.turn.message_id:
            self.end = TurnEnd("error", f"{event.code}: {event.message}")

    def go_on(self) -> None:
        """Follow the task beyond the end of a turn."""
        self.end, self.turn = None, TurnTracker("", task_id=self.task)

    def after_gap(self) -> None:
        """Forget what the client has, because events are missing: the next text of a step is sent whole."""
        self._texts.clear()

    def texts(self) -> Mapping[int, str]:
        """Return the texts of steps that are known from events, by step."""
        return {step: known.text for step, known in self._texts.items()}

    def ended(self, asked: list[PendingApproval], at: str) -> TaskStatusUpdateEvent:
        """Return the update that ends the run. ``asked``: calls that wait for a decision."""
        end = self.end or TurnEnd("error")
        about = {"task": self.task or "", "context": self.session}
        if end.outcome == "waiting":
            status = waiting_status(self.said if end.reason == "question" else end.why, asked, **about)
        else:
            why = "" if end.outcome == "completed" else end.why
            status = plain_status(state_of(end.outcome), why, **about)
        return self._status(status, at, {})

    def _translated(self, event: SessionEvent) -> Iterator[Update]:
        own = event.task_id is not None and event.task_id == self.task
        match event:
            case Content() if own:
                yield from self._delta(event)
            case MessageEvent() if own:
                yield from self._message(event)
            case ToolResultEvent():
                for file in event.artifacts or ():
                    artifact = file_artifact(file.path, file.media_type, self.session, self.address)
                    yield self._artifact(artifact, False, True)
                yield self._told(event)
            case MessageEvent():
                self.said = event.content or self.said
            case Content() | Thinking() | Snapshot():
                return
            case TaskEnd() if own:
                return
            case TaskStatusEvent() if own and event.status == "waiting":
                return
            case _:
                if self.task is not None:
                    yield self._told(event)

    def _delta(self, event: Content) -> Iterator[Update]:
        known = self._texts.get(event.step)
        if known is not None and event.attempt < known.attempt:
            return
        if known is None or known.attempt != event.attempt:
            known = _StepText(event.attempt, "")
        if event.offset != len(known.text) or not event.content:
            return  # a hole: the step's message has the whole text
        known.text += event.content
        self._texts[event.step] = known
        yield self._piece(event.step, event.content, append=event.offset > 0, last=False)

    def _message(self, event: MessageEvent) -> Iterator[Update]:
        known, text = self._texts.get(event.step), event.content
        self.said = text or self.said
        self._texts[event.step] = _StepText(event.attempt, text)
        if known is not None and known.attempt == event.attempt and text.startswith(known.text):
            yield self._piece(event.step, text[len(known.text) :], append=True, last=True)
        elif text or known is not None:
            yield self._piece(event.step, text, append=False, last=True)

    def _piece(self, step: int, text: str, *, append: bool, last: bool) -> Update:
        return self._artifact(Artifact(artifact_id=artifact_id(step), parts=[Part(text=text)]), append, last)

    def _artifact(self, artifact: Artifact, append: bool, last: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self.task or "", context_id=self.session, artifact=artifact, append=append, last_chunk=last
        )

    def _told(self, event: SessionEvent) -> TaskStatusUpdateEvent:
        """An event that A2A has none for goes to the client as it is, beside the word that the task goes on."""
        about = event.model_dump(mode="json", exclude_none=True)
        return self._status(TaskStatus(state=TaskState.TASK_STATE_WORKING), event.at, {"pentad": about})

    def _status(self, status: TaskStatus, at: str, about: Mapping[str, Any]) -> TaskStatusUpdateEvent:
        status.timestamp.CopyFrom(timestamp_of(at))
        made = TaskStatusUpdateEvent(task_id=self.task or "", context_id=self.session, status=status)
        if about:
            made.metadata.CopyFrom(struct_of(about))
        return made
