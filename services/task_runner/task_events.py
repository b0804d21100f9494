"""The events of one handling of a task, on their way into its commit."""

from collections.abc import Callable
from typing import Any

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.counters import Counters
from pentad.services.task_runner.domain.budget import remaining
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.commit_events import CommitEvents
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.keys import SessionKeys, TaskKeys


class TaskEvents(CommitEvents):
    """Writes events of the task into a commit."""

    def __init__(
        self, commit: Commit, keys: TaskKeys, task: TaskHeader, turn: Counters, clock: Callable[[], int]
    ) -> None:
        super().__init__(commit, SessionKeys(keys.shard, keys.tenant, task.session), rfc3339(clock()))
        self.keys, self.task, self.turn = keys, task, turn
        self._clock = clock
        """The server's clock in ms."""

    def read_clock(self) -> None:
        """Events from here on happen at this time: since the last, a model may have taken minutes."""
        self.at = rfc3339(self._clock())

    def envelope(self) -> dict[str, Any]:
        """The next event's envelope."""
        t = self.turn
        return self.stamp(
            {
                "task_id": self.keys.task,
                "correlation_id": t.correlation or None,
                "causation_id": self.commit.step_id,
                "traceparent": t.traceparent or None,
                "deadline": rfc3339(self.task.deadline) if self.task.deadline else None,
                "budget": remaining(t.budget, t.tokens, t.usd, t.steps),
            }
        )

    def emit(self, kind: type[Contract], **fields: Any) -> None:
        """Add an event to the commit."""
        self.commit.event(self.session, kind.from_fields(self.envelope() | fields))
