"""The events of one handling of a task, on their way into its commit."""

from collections.abc import Callable
from typing import Any

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.counters import Counters
from pentad.services.task_runner.domain.budget import remaining
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.keys import SessionKeys, TaskKeys


class TaskEvents:
    """Writes events of the task into a commit. Every event says why it exists (law 9)."""

    def __init__(
        self, commit: Commit, keys: TaskKeys, task: TaskHeader, turn: Counters, clock: Callable[[], int]
    ) -> None:
        self.commit, self.keys, self.task, self.turn = commit, keys, task, turn
        self._clock = clock
        """The server's clock in ms."""
        self.session = SessionKeys(keys.shard, keys.tenant, task.session)
        self._events = 0
        self.read_clock()

    def read_clock(self) -> None:
        """Events from here on happen at this time: since the last, a model may have taken minutes."""
        self.at = rfc3339(self._clock())

    def envelope(self) -> dict[str, Any]:
        """The fields of the next event."""
        self._events += 1
        t = self.turn
        return {
            "event_id": f"{self.commit.step_id}.{self._events}",
            "at": self.at,
            "tenant_id": self.keys.tenant,
            "session_id": self.task.session,
            "task_id": self.keys.task,
            "correlation_id": t.correlation or None,
            "causation_id": self.commit.step_id,
            "traceparent": t.traceparent or None,
            "deadline": rfc3339(self.task.deadline) if self.task.deadline else None,
            "budget": remaining(t.budget, t.tokens, t.usd, t.steps),
        }

    def emit(self, kind: type[Contract], **fields: Any) -> None:
        """Add an event to the commit."""
        self.commit.event(self.session, kind(**self.envelope(), **fields))
