"""The events of a message's turn, collected for a client who waits for its end. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from pentad.contracts.events import MessageEvent, SessionEvent, Snapshot, TaskEnd, TaskUsage, event_adapter
from pentad.contracts.records import Task
from pentad.contracts.turns import ASKED, Outcome, TurnEnd, TurnTracker


class WaitedTurn:
    """Collects the events of one message's turn, for a client who waits for its end."""

    def __init__(self, message_id: str) -> None:
        self._turn = TurnTracker(message_id)
        self.answer: str | None = None
        """Text of the turn's last message."""
        self.ref: str | None = None
        """Name under which the whole text is kept if it was cut."""
        self.events: list[dict[str, Any]] = []
        self._usage: TaskUsage | None = None

    @property
    def message_id(self) -> str:
        """Id of the message whose turn this is."""
        return self._turn.message_id

    @property
    def end(self) -> TurnEnd | None:
        """End of the turn; None while it goes on."""
        return self._turn.end

    @property
    def task_id(self) -> str | None:
        """Task to which the message was routed; None until that is known."""
        return self._turn.task_id

    @property
    def status(self) -> Outcome | None:
        """Outcome of the turn; None while it goes on."""
        return None if self._turn.end is None else self._turn.end.outcome

    @property
    def usage(self) -> TaskUsage | None:
        """Usage that the end of the turn's task tells; None before it."""
        return self._usage if self._turn.end is not None else None

    @property
    def may_go_on(self) -> bool:
        """Whether the turn has ended because its task waits for a decision, and goes on without another message."""
        end = self._turn.end
        return end is not None and end.outcome == "waiting" and end.reason != ASKED

    def go_on(self) -> None:
        """Follow the turn beyond a decision that its task has waited for."""
        self._turn = replace(self._turn, end=None)

    def settle(self, task: Task) -> None:
        """Take the end of the turn, and the task, from a look at the task."""
        self._turn = replace(self._turn, task_id=task.task_id).settled(task.model_dump(mode="json"))

    def feed(self, event: dict[str, Any]) -> bool:
        """Process the session's next event, and return whether the turn has ended."""
        known = known_event(event)
        if self._turn.end is None and known is not None and self._turn.concerns(known):
            self.events.append(event)
            self._turn = self._turn.after(known)
            if isinstance(known, MessageEvent):
                self.answer, self.ref = known.content, known.ref
                self._drop_deltas(known.task_id, known.step)
            elif isinstance(known, TaskEnd) and known.parent_task_id is None:
                self._usage = known.usage
                if self._turn.end is None:
                    self._drop_turn_before()
            elif isinstance(known, Snapshot) and self._turn.end is not None:
                self._answer_from(known)
        return self._turn.end is not None

    def _drop_turn_before(self) -> None:
        """Drop the events of an earlier turn behind which the message was queued."""
        self.answer = self.ref = None
        self.events = [event for event in self.events if event.get("message_id") == self.message_id]

    def _answer_from(self, snapshot: Snapshot) -> None:
        """Take the answer from the snapshot, because the event with it is lost."""
        said = [m for m in snapshot.messages if m.get("task_id") == self.task_id and m.get("role") == "assistant"]
        self.answer = self.answer or (said[-1].get("content") if said else None)

    def _drop_deltas(self, task: str | None, step: int) -> None:
        """Drop the deltas of a task's step, because its message has their whole text."""
        void = {(kind, task, step) for kind in ("content", "thinking")}
        self.events = [e for e in self.events if (e["type"], e.get("task_id"), e.get("step")) not in void]

    def result(self, session: str) -> dict[str, Any]:
        """Return the answer to `POST /v1/messages?wait` at the turn's end."""
        return {
            "session_id": session,
            "message_id": self._turn.message_id,
            "task_id": self.task_id,
            "status": self.status,
            "answer": self.answer,
            "events": self.events,
        }


class TurnFilter:
    """Selects the events of one message's turn from those of its session."""

    def __init__(self, message_id: str) -> None:
        self._turn = TurnTracker(message_id)

    @property
    def over(self) -> bool:
        """Whether the turn has ended."""
        return self._turn.end is not None

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Process the session's next event, and return whether it belongs to the turn."""
        known = known_event(event)
        if self.over or known is None or not self._turn.concerns(known):
            return False
        self._turn = self._turn.after(known)
        return True


def known_event(event: Mapping[str, Any]) -> SessionEvent | None:
    """Return the event in a JSON object; None for an event of a later version."""
    try:
        return event_adapter.validate_python(event)
    except ValidationError:
        return None
