"""The turn under way: whose it is, what it has used, and what is left of its budget. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic_core import to_json

from pentad.contracts.envelope import Budget
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.shared.actors.client_tools import digest_of_client_tools
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.immutable import immutable


@immutable
class CurrentTurn:
    """The turn under way: how much it has used, and the message that it answers."""

    steps: int
    tokens: int
    usd: float
    budget: Budget | None
    correlation: str
    traceparent: str
    metadata: Mapping[str, str]
    """Metadata that the producer of the turn's message has sent along."""
    speaker: str
    """Id of the user who has sent the message; '' when the message names no user."""
    at: int
    """Time at which the message entered the inbound stream, in ms."""
    client_tools: str = ""
    """Digest of the tools that the sender of the message has itself; '' for none."""

    def after_step(self, tokens: int, usd: float) -> "CurrentTurn":
        """A copy that counts one step more, which has used this much."""
        return replace(self, steps=self.steps + 1, tokens=self.tokens + tokens, usd=self.usd + usd)

    def with_child(self, tokens: int, usd: float) -> "CurrentTurn":
        """A copy that counts what a task has used that this one has started."""
        return replace(self, tokens=self.tokens + tokens, usd=self.usd + usd)

    @property
    def message_fields(self) -> dict[str, str | bytes]:
        """The fields of the task's header that later steps know the turn's message by."""
        return {
            "correlation": self.correlation,
            "traceparent": self.traceparent,
            "budget": self.budget.to_json() if self.budget else b"",
            "speaker": self.speaker,
            "metadata": to_json(self.metadata) if self.metadata else b"",
            "client_tools": self.client_tools,
        }


def current_turn(task: TaskHeader, arrived: Arrived) -> CurrentTurn:
    """The turn under way. Its counters begin again with the task's last user message, or with a redrive."""
    if not arrived.users:
        used = CurrentTurn(
            task.turn_steps,
            task.turn_tokens,
            task.turn_usd,
            task.budget,
            task.correlation,
            task.traceparent,
            task.metadata,
            task.speaker,
            task.turn_at,
            task.client_tools,
        )
        if not arrived.redrives:
            return used
        return replace(used, steps=0, tokens=0, usd=0.0, at=arrived.redrives[-1].at)
    mail = arrived.users[-1]
    last = mail.message
    at = int(mail.entry_id.split("-")[0])
    return CurrentTurn(
        steps=0,
        tokens=0,
        usd=0.0,
        budget=last.budget,
        correlation=last.message_id or "",
        traceparent=last.traceparent or "",
        metadata=last.metadata,
        speaker=last.user_id or "",
        at=at,
        client_tools=digest_of_client_tools(last.tools),
    )


def exceeded_by(budget: Budget | None, tokens: int, usd: float, steps: int) -> bool:
    """Whether a turn that has used this much may not go on."""
    if budget is None:
        return False
    return (
        (budget.tokens is not None and tokens >= budget.tokens)
        or (budget.usd is not None and usd >= budget.usd)
        or (budget.steps is not None and steps >= budget.steps)
    )


def remaining(budget: Budget | None, tokens: int, usd: float, steps: int) -> Budget | None:
    """The rest of a turn's budget."""
    if budget is None:
        return None
    return Budget(
        tokens=None if budget.tokens is None else max(0, budget.tokens - tokens),
        usd=None if budget.usd is None else max(0.0, budget.usd - usd),
        steps=None if budget.steps is None else max(0, budget.steps - steps),
    )
