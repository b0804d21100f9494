"""What a tool is to everyone who did not write it: its name, its schema and what running it twice would mean."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

TIMEOUT_S = 60.0
"""Seconds that a call may take whose tool does not say how long."""


class Effect(StrEnum):
    """What a call does to the world, which decides what may happen after a crash (law 10)."""

    PURE = "pure"
    """Reads only. May run any number of times."""
    IDEMPOTENT = "idempotent"
    """Running it again with the same idempotency key has no further effect. May be retried."""
    UNSAFE = "unsafe"
    """Must never run twice: a call whose outcome is unknown is reported as unknown."""


class ToolSpec(BaseModel):
    """A tool as tool-workers publish it and as the model is told about it."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    effect: Effect = Effect.UNSAFE
    timeout: float = Field(default=TIMEOUT_S, gt=0)
    """Seconds, counted from the start of the call."""
    queue: str = Field(default="default", pattern=r"^[a-z0-9-]{1,32}$")
    isolated: bool = False
    """Each call has a process of its own."""


RESERVED_NAMES = frozenset({"ask_user", "complete_task"})
"""Tools that the task-runner answers itself: no tool of a worker may have such a name. All other names are free."""
MEMORY_SEARCH, MEMORY_EXPAND, MEMORY_FORGET = "memory_search", "memory_expand", "memory_forget"
RESULT_READ = "result_read"
"""The built-in tool that reads a result on, of which a prompt holds a part."""
RECALLING_TOOLS = frozenset({MEMORY_SEARCH, MEMORY_EXPAND, MEMORY_FORGET})
"""Built-in tools that name what is in long-term memory: what they are asked and what they give is not remembered."""
OutcomeKind = Literal["ok", "error", "timeout", "cancelled", "crashed", "interrupted", "unknown"]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a tool call ended, or one attempt of it: the one form from the tool to the transcript."""

    kind: OutcomeKind
    """``crashed``: the call brought its process down. ``interrupted``: its process was lost and the call may not be to
    blame; only an attempt ends so. ``cancelled``: the tool cancelled itself, or its task gave it up. ``unknown``: an
    unsafe call had started, and nobody knows what it has done."""
    text: str
    """The result of what is ``ok``, the reason of all else."""
    duration_ms: int | None = None
    """None: it did not run to its end."""
    starts: int = 1

    @property
    def ok(self) -> bool:
        return self.kind == "ok"

    @property
    def result(self) -> str | None:
        """The result; None of what is not ``ok``."""
        return self.text if self.ok else None

    @property
    def error(self) -> str | None:
        """The reason; None of what is ``ok``."""
        return None if self.ok else self.text

    @property
    def for_model(self) -> str:
        """What the model is told."""
        return self.text if self.ok else f"error: {self.text}"

    @property
    def told(self) -> dict[str, Any]:
        """What a ``tool_result`` event says of it."""
        ok, text = self.kind == "ok", self.text
        return {
            "result": text if ok else None,
            "error": None if ok else text,
            "duration_ms": self.duration_ms or 0,
        }

    @property
    def counted_as(self) -> str:
        """Its label in the metrics."""
        return "error" if self.kind in ("crashed", "interrupted") else self.kind
