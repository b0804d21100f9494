"""What every event carries beside its own fields (law 9): enough to say what it is, whose it is and why it exists."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from pentad.contracts.ids import Timestamp, milliseconds


class Contract(BaseModel):
    """Frozen data. Unknown fields are dropped, so that a newer writer does not stop an older reader.

    No number is infinite or none at all: JSON could not say it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def type_name(cls) -> str:
        """The ``type`` that its JSON says; empty for a contract without one."""
        field = cls.model_fields.get("type")
        return str(field.default) if field else ""

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """What ``cls(**fields)`` is, for those who make many: in two thirds of its time. Raises as that does."""
        made: Self = cls.__pydantic_validator__.validate_python(fields)
        return made

    def to_json(self) -> bytes:
        """The wire form: compact JSON without absent fields."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True)


def due_of(deadline: str | None) -> int:
    """A deadline in ms since the epoch; 0 for none."""
    return max(1, milliseconds(deadline)) if deadline else 0


class Budget(Contract):
    """What one turn may still use. An absent field is no limit."""

    tokens: int | None = Field(default=None, ge=0, le=10**15)
    """Input and output tokens together."""
    usd: float | None = Field(default=None, ge=0, le=1e9)
    steps: int | None = Field(default=None, ge=0, le=10**9)


class Envelope(Contract):
    """The fields that all events and commands share."""

    event_id: str
    at: str
    """When it was made: RFC 3339, UTC, milliseconds."""
    tenant_id: str
    session_id: str
    task_id: str | None = None
    correlation_id: str | None = None
    """``message_id`` of the user's message whose turn this belongs to."""
    causation_id: str | None = None
    """What made this directly: a step, a call, an inbound entry."""
    traceparent: str | None = None
    """W3C trace context, carried along unchanged when nothing traces."""
    deadline: Timestamp | None = None
    budget: Budget | None = None
    """What is left of the turn's budget."""

    @property
    def due(self) -> int:
        """The deadline as it is counted inside: ms since the epoch, 0 for none."""
        return due_of(self.deadline)

    def led_to(self) -> dict[str, Any]:
        """The fields of what this causes: whose it is, why it exists, and what bounds it (law 9)."""
        return {
            "tenant_id": self.tenant_id,
            "session_id": self.session_id,
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "causation_id": self.event_id,
            "traceparent": self.traceparent,
            "deadline": self.deadline,
            "budget": self.budget,
        }
