"""What goes into a tool's process and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pentad.shared.plugins.context import ToolContext

OnProgress = Callable[[str, float | None], None]
Kind = Literal["ok", "error", "timeout", "cancelled", "crashed", "interrupted"]


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One attempt of one tool call."""

    tool: str
    args: dict[str, Any]
    timeout_s: float
    """Seconds, counted from the moment the call is handed to a process."""
    context: ToolContext = field(default_factory=ToolContext)
    """Its ``report`` is not used: progress goes to ``on_progress``."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How an attempt ended. Either ``result`` or ``error`` is set."""

    result: str | None
    error: str | None
    kind: Kind
    """``crashed``: this call brought its process down. ``interrupted``: the process was lost and this call may not be
    to blame; the caller decides by the tool's effect. ``cancelled``: the tool cancelled itself."""
    duration_ms: int
