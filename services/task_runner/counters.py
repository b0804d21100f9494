"""What a turn has used, whose turn it is, and the settings that bound it."""

from collections.abc import Mapping
from dataclasses import replace

from pentad.contracts.envelope import Budget
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.immutable import immutable


@immutable
class Limits:
    """Settings that a commit depends on."""

    grace_ms: int
    step_timeout_ms: int
    wait_ttl_ms: int
    stale_ms: int
    session_ttl_s: int
    tasks_per_session: int
    tasks_per_tenant: int
    shares_memory: bool
    """Whether what is said without a user is remembered for the whole tenant, not for its session alone."""
    result_bytes: int
    """Of one tool result, those that prompts hold."""

    @property
    def stale_while_calling(self) -> bool:
        """Whether tool calls may run for longer than a task may be silent."""
        return self.stale_ms < self.step_timeout_ms


@immutable
class Counters:
    """A turn's use, and whose turn it is."""

    steps: int
    tokens: int
    usd: float
    budget: Budget | None
    correlation: str
    traceparent: str
    metadata: Mapping[str, str]
    """What its producer has sent along."""
    speaker: str
    """Who said it, of the tenant's users; '' when nobody was named."""
    at: int
    """When its user message entered the inbound stream, in ms."""

    def after_step(self, tokens: int, usd: float) -> "Counters":
        """With one step more that used this much."""
        return replace(self, steps=self.steps + 1, tokens=self.tokens + tokens, usd=self.usd + usd)


def counters(task: TaskHeader, arrived: Arrived) -> Counters:
    """The turn's counters: they begin again with the task's last user message, or with what was redriven."""
    if not arrived.users:
        used = Counters(
            task.turn_steps,
            task.turn_tokens,
            task.turn_usd,
            task.budget,
            task.correlation,
            task.traceparent,
            task.metadata,
            task.speaker,
            task.turn_at,
        )
        if not arrived.redrives:
            return used
        return replace(used, steps=0, tokens=0, usd=0.0, at=arrived.redrives[-1].at)
    mail = arrived.users[-1]
    last = mail.message
    at = int(mail.entry_id.split("-")[0])
    return Counters(
        steps=0,
        tokens=0,
        usd=0.0,
        budget=last.budget,
        correlation=last.message_id or "",
        traceparent=last.traceparent or "",
        metadata=last.metadata,
        speaker=last.user_id or "",
        at=at,
    )
