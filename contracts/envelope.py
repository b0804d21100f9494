"""The envelope: the fields of every event and command that say what it is, whose it is and why it exists (law 9)."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from pentad.contracts.ids import Timestamp, milliseconds


class Contract(BaseModel):
    """The base of all data that is exchanged: frozen, without infinite numbers and NaN, which JSON cannot express.

    Unknown fields are dropped, so that a newer writer does not stop an older reader.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def type_name(cls) -> str:
        """Return the ``type`` in the contract's JSON; empty for a contract without one."""
        field = cls.model_fields.get("type")
        return str(field.default) if field else ""

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return ``cls(**fields)``, and raise the same errors, in two thirds of the time: for code that makes many."""
        made: Self = cls.__pydantic_validator__.validate_python(fields)
        return made

    def to_json(self) -> bytes:
        """Return the wire form: compact JSON without absent fields."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True)


def due_of(deadline: str | None) -> int:
    """Return a deadline in milliseconds since the epoch; 0 for none."""
    return max(1, milliseconds(deadline)) if deadline else 0


class Budget(Contract):
    """The limits of what one turn may still use. An absent field is no limit."""

    tokens: int | None = Field(default=None, ge=0, le=10**15)
    """Input and output tokens together."""
    usd: float | None = Field(default=None, ge=0, le=1e9)
    steps: int | None = Field(default=None, ge=0, le=10**9)


class Envelope(Contract):
    """The fields that all events and commands share."""

    event_id: str
    at: str
    """Time at which the event or command was made: RFC 3339, UTC, with milliseconds."""
    tenant_id: str
    session_id: str
    task_id: str | None = None
    correlation_id: str | None = None
    """``message_id`` of the user's message whose turn this belongs to."""
    causation_id: str | None = None
    """Id of the direct cause: a step, a tool call or an inbound entry."""
    traceparent: str | None = None
    """W3C trace context, passed on unchanged when tracing is off."""
    deadline: Timestamp | None = None
    budget: Budget | None = None
    """The rest of the turn's budget."""
    parent_task_id: str | None = None
    """Task that has started ``task_id``; absent for a task that a message has begun."""
    node: str | None = None
    """Key of a node of a graph: of the task's own that begins or ends, else of the parent's that has started the
    task."""

    @property
    def due(self) -> int:
        """The deadline in milliseconds since the epoch; 0 for none."""
        return due_of(self.deadline)

    def led_to(self) -> dict[str, Any]:
        """Return the envelope fields of an event or command that this one causes: owner, cause and limits (law 9)."""
        return {
            "tenant_id": self.tenant_id,
            "session_id": self.session_id,
            "task_id": self.task_id,
            "correlation_id": self.correlation_id,
            "causation_id": self.event_id,
            "traceparent": self.traceparent,
            "deadline": self.deadline,
            "budget": self.budget,
            "parent_task_id": self.parent_task_id,
            "node": self.node,
        }
