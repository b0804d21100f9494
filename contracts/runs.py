"""The result of running an instruction by its name."""

from typing import Any

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskStatus, TaskUsage
from pentad.contracts.turns import Outcome


class RunCall(Contract):
    """A tool call of a run, with its one outcome: ``result`` or ``error``."""

    tool_call_id: str
    tool: str
    args: dict[str, Any] | str
    """Arguments of the call; the raw text when they do not parse."""
    result: str | None = None
    error: str | None = None
    duration_ms: int = 0
    at: str | None = None
    """Time at which the model made the call: RFC 3339."""
    ref: str | None = None
    """Name under which the whole result is kept when ``result`` was cut."""


class RunProblem(Contract):
    """The reason why a run has no answer."""

    code: str
    message: str


class InstructionRun(Contract):
    """One run of an instruction, after its end."""

    instruction: str
    status: Outcome
    data: Any = None
    """Value of a completed ``json`` instruction, which fits the schema; absent for any other run."""
    content: str | None = None
    """Text of the last answer, if there is no ``data``."""
    tool_calls: list[RunCall] = Field(default_factory=list)
    usage: TaskUsage = TaskUsage()
    """Usage of the task, its earlier turns included."""
    steps: int = 0
    """Number of steps of the task, its earlier turns included."""
    error: RunProblem | None = None
    session_id: str
    message_id: str
    task_id: str | None = None

    def told(self) -> dict[str, Any]:
        """Return the run as JSON: with ``data`` or with ``content``, and with ``error`` only if there is one."""
        absent = {"content" if "data" in self.model_fields_set else "data"} | (
            {"error"} if self.error is None else set()
        )
        return self.model_dump(mode="json", exclude=absent)

    @property
    def value(self) -> Any:
        """Data of a ``json`` instruction, text of another one."""
        return self.data if "data" in self.model_fields_set else self.content


class ToolRun(Contract):
    """One tool call outside a conversation, as far as it has come."""

    call_id: str
    """The caller's idempotency key: asked for again under it, the call runs once."""
    tool: str | None = None
    """Name of the tool; None while the call is not routed."""
    status: TaskStatus
    """Status of the call's task. ``pending``: it waits for its place. ``completed`` has a result, ``failed`` an
    error."""
    result: str | None = None
    """Result of the tool: a text as it is, anything else as JSON."""
    error: RunProblem | None = None
    """Why there is no result; ``outcome unknown`` in it says that the tool may have had its effect."""
    session_id: str
    task_id: str | None = None
    tool_call_id: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the call has its outcome."""
        return self.status in ("completed", "failed", "cancelled")
