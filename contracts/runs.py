"""What running an instruction by its name comes to."""

from typing import Any

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskUsage
from pentad.contracts.turns import Outcome


class RunCall(Contract):
    """A tool call that was made on the way, with its one outcome: ``result`` or ``error``."""

    tool_call_id: str
    tool: str
    args: dict[str, Any] | str
    """The raw text when it does not parse."""
    result: str | None = None
    error: str | None = None
    duration_ms: int = 0
    at: str | None = None
    """When the model asked for it: RFC 3339."""
    ref: str | None = None
    """Where the whole result is kept when ``result`` was cut."""


class RunProblem(Contract):
    """Why a run has no answer."""

    code: str
    message: str


class InstructionRun(Contract):
    """One run, at its end."""

    instruction: str
    status: Outcome
    data: Any = None
    """The value of a ``json`` instruction that has completed; it fits the schema. Else the field is absent."""
    content: str | None = None
    """The text of the last answer, where there is no ``data``."""
    tool_calls: list[RunCall] = Field(default_factory=list)
    usage: TaskUsage = TaskUsage()
    """Of the task, its earlier turns included."""
    error: RunProblem | None = None
    session_id: str
    message_id: str
    task_id: str | None = None

    def told(self) -> dict[str, Any]:
        """As JSON: with ``data`` or with ``content``, and with an ``error`` only where there is one."""
        absent = {"content" if "data" in self.model_fields_set else "data"} | (
            {"error"} if self.error is None else set()
        )
        return self.model_dump(mode="json", exclude=absent)

    @property
    def value(self) -> Any:
        """The data of a ``json`` instruction, the text of another one."""
        return self.data if "data" in self.model_fields_set else self.content
