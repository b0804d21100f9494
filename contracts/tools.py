"""What a tool is to everyone who did not write it: its name, its schema and what running it twice would mean."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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
    timeout: float = Field(default=60.0, gt=0)
    """Seconds, counted from the start of the call."""
    queue: str = Field(default="default", pattern=r"^[a-z0-9-]{1,32}$")
    isolated: bool = False
    """Each call has a process of its own."""
