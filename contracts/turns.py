"""The rule that says which events belong to a message's turn and when the turn ends, for the gateway and clients."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    ControlResult,
    ErrorEvent,
    MessageMoved,
    MessageRouted,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskStatusEvent,
    ToolCallEvent,
    ToolResultEvent,
)

Outcome = Literal["completed", "failed", "cancelled", "waiting", "rejected", "error"]
ASKED = "question"
"""The reason of a task that waits for the answer to its question."""
NEEDS_APPROVAL = "approval"
"""The reason of a task that waits for decisions about its tool calls."""
NEEDS_CLIENT = "client_tools"
"""The reason of a task that waits for the results of tools that its client runs."""
_SETTLED = frozenset({"completed", "failed", "cancelled", "waiting"})


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn. ``reason`` is that of the event: an error code and text, or what the task waits for."""

    outcome: Outcome
    reason: str = ""
    detail: str = ""
    """Explanation of a task's failure, if its ``task_end`` has one."""

    @property
    def why(self) -> str:
        """Reason and explanation in one text."""
        return ": ".join(filter(None, (self.reason, self.detail)))

    @property
    def ok(self) -> bool:
        """Whether the turn ended with an answer or with a question to the person."""
        return self.outcome in ("completed", "waiting")


@dataclass(frozen=True, slots=True)
class TurnTracker:
    """The state of a message's turn after the events seen so far. It is immutable: ``after`` returns the next state."""

    message_id: str
    task_id: str | None = None
    """Task to which the message was routed; None until that is known."""
    routed: bool = False
    """Whether the ``message_routed`` of the message was seen."""
    end: TurnEnd | None = None
    leaves: str | None = None
    """The task from which the message is being moved away: until it has gone, events of that task are not this
    turn's."""
    started: frozenset[str] = frozenset()
    """Tasks that go on which the turn's task has started, or one of those."""
    runs: frozenset[str] = frozenset()
    """Names of the message's own tools whose calls are answered by whoever follows the turn: it goes on beyond a wait
    for them."""
    left: frozenset[str] = frozenset()
    """Ids of open calls of clients' tools that are answered by nobody who follows the turn."""

    def concerns(self, event: SessionEvent) -> bool:
        """Return whether an event belongs to this turn; gaps (``cursor_expired``, ``snapshot``) belong to all turns."""
        if isinstance(event, Snapshot) or _is_gap(event):
            return True
        if self.leaves is not None:
            return _is_moved(event, self.message_id) or _is_kept(event, self.leaves)
        if isinstance(event, ErrorEvent) and event.message_id is not None:
            return event.message_id == self.message_id
        if isinstance(event, MessageRouted | MessageMoved | ControlResult) and event.message_id == self.message_id:
            return True
        if self.task_id is not None:
            return event.task_id == self.task_id or self._is_of_child(event)
        return event.correlation_id == self.message_id

    def after(self, event: SessionEvent) -> "TurnTracker":
        """Return the state after ``event``. An ended turn stays as it is."""
        if self.end is not None or not self.concerns(event):
            return self
        match event:
            case Snapshot():
                return self._after_snapshot(event)
            case MessageRouted() if event.message_id == self.message_id:
                return self._after_routing(event)
            case MessageMoved() if event.message_id == self.message_id:
                return replace(self, task_id=event.to_task_id, leaves=None)
            case ErrorEvent() if self.leaves is not None and not _is_gap(event):
                return self.ended("error", f"{event.code}: {event.message}")
            case ControlResult() if event.message_id == self.message_id:
                return self.ended("completed", event.content)
            case ErrorEvent() if event.message_id == self.message_id:
                return self.ended("error", f"{event.code}: {event.message}")
            case ToolResultEvent() if event.tool_call_id in self.left:
                return replace(self, left=self.left - {event.tool_call_id})
        if self._is_of_child(event) and event.task_id != self.task_id:
            return self._after_child_event(event)
        return self._with_task(event.task_id)._after_task_event(event)

    def _is_of_child(self, event: SessionEvent) -> bool:
        """Return whether an event is of a task that the turn's task has started, or one of those.

        A task that is started after a person's answer to another one is caused by the message before the answer.
        """
        if event.parent_task_id is None:
            return False
        is_below = event.parent_task_id == self.task_id or event.parent_task_id in self.started
        return is_below or event.correlation_id == self.message_id != ""

    def _after_child_event(self, event: SessionEvent) -> "TurnTracker":
        """Return the state after an event of a started task: its question to the person ends the turn, its end does
        not.
        """
        if isinstance(event, TaskStatusEvent) and event.status == "waiting" and event.reason == ASKED:
            return self.ended("waiting", event.reason)
        below = {event.task_id} if event.task_id is not None else set()
        return replace(self, started=self.started - below if isinstance(event, TaskEnd) else self.started | below)

    def ended(self, outcome: Outcome, reason: str = "", detail: str | None = None) -> "TurnTracker":
        """Return this turn, ended."""
        return replace(self, end=TurnEnd(outcome, reason, detail or ""))

    def settled(self, task: Mapping[str, Any]) -> "TurnTracker":
        """Return the turn after a look at its task, as inspection shows it: ended if the task has ended or waits."""
        status = task.get("status")
        if status not in _SETTLED:
            return self
        reason = task.get("reason") or ", ".join(map(str, task.get("waiting_for") or ()))
        return self.ended(cast(Outcome, status), reason, task.get("detail"))

    def _with_task(self, task_id: str | None) -> "TurnTracker":
        return replace(self, task_id=task_id) if self.task_id is None else self

    def _after_routing(self, event: MessageRouted) -> "TurnTracker":
        if event.decision == "rejected":
            return replace(self, routed=True).ended("rejected", event.reason)
        return replace(self, routed=True, task_id=event.task_id)

    def _after_task_event(self, event: SessionEvent) -> "TurnTracker":
        if isinstance(event, TaskEnd) and event.parent_task_id is not None:
            return replace(self, task_id=event.parent_task_id)  # the answer is that of the task which has started it
        if isinstance(event, TaskEnd):
            anothers = event.queues and self.message_id not in ("", event.correlation_id)
            return self if anothers else self.ended(event.status, event.reason, event.detail)
        if isinstance(event, ToolCallEvent) and event.client:
            here = event.correlation_id == self.message_id and event.tool in self.runs
            return self if here else replace(self, left=self.left | {event.tool_call_id})
        if isinstance(event, TaskStatusEvent) and event.status == "waiting":
            goes_on = event.reason == NEEDS_CLIENT and self.runs and not self.left
            return self if goes_on else self.ended("waiting", event.reason)
        return self

    def _after_snapshot(self, snapshot: Snapshot) -> "TurnTracker":
        where = _task_of(snapshot, self.message_id)
        if self.leaves is not None and where in (None, self.leaves):
            return self
        known = replace(self, leaves=None)._with_task(where)
        for task in snapshot.tasks:
            if task.get("task_id") == known.task_id:
                return known.settled(task)
        return known


def _is_gap(event: SessionEvent) -> bool:
    return isinstance(event, ErrorEvent) and event.code is ErrorCode.CURSOR_EXPIRED


def _is_moved(event: SessionEvent, message_id: str) -> bool:
    return isinstance(event, MessageMoved) and event.message_id == message_id


def _is_kept(event: SessionEvent, task_id: str) -> bool:
    """Return whether this event says that the task keeps the message, because it cannot be moved."""
    return isinstance(event, ErrorEvent) and event.task_id == task_id and event.code is ErrorCode.NOT_ALLOWED


def _task_of(snapshot: Snapshot, message_id: str) -> str | None:
    found = (m.get("task_id") for m in snapshot.messages if m.get("message_id") == message_id)
    return next(found, None)
