"""An answer together with what led to it: the steps of its turn."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from pentad.client.inspection import Inspection
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import TaskStep

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Traced(Generic[T]):
    """An answer, and the steps that its turn took."""

    value: T
    """The answer: what the same call gives without ``trace``."""
    session_id: str
    task_id: str | None
    """Task that answered; None where no task did."""
    trace: list[TaskStep]
    """Steps of the turn, the first one first: messages, tool calls with results, times, usage, model."""

    @property
    def steps(self) -> int:
        """Number of steps that the turn took."""
        return len(self.trace)

    @property
    def usage(self) -> TaskUsage:
        """Tokens and dollars of these steps."""
        used = [step.usage for step in self.trace]
        return TaskUsage(
            input_tokens=sum(each.input_tokens for each in used),
            output_tokens=sum(each.output_tokens for each in used),
            usd=sum(each.usd for each in used),
        )


async def trace_of(
    inspection: Inspection, task_id: str | None, message_id: str, last_step: int | None
) -> list[TaskStep]:
    """Return the steps of a message's turn: from the one that first had the message up to ``last_step``.

    ``last_step``: the number of the task's last step when the turn ended; None: all that there are now.
    """
    if task_id is None:
        return []
    steps = await inspection.steps(task_id, limit=None)
    first = next((number for number, step in enumerate(steps) if _has(step, message_id)), len(steps))
    return [step for step in steps[first:] if last_step is None or step.step <= last_step]


def _has(step: TaskStep, message_id: str) -> bool:
    return any(message.get("message_id") == message_id and "origin" not in message for message in step.messages)
