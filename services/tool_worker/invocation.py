"""What a source of tools is given to run."""

from collections.abc import Callable
from dataclasses import field
from typing import Any

from pentad.shared.immutable import immutable
from pentad.shared.plugins.context import ToolContext

OnProgress = Callable[[str, float | None], None]
"""Takes what a running tool says of itself, and how far it is (0 to 1)."""


@immutable
class ToolInvocation:
    """One attempt of one tool call."""

    tool: str
    args: dict[str, Any]
    timeout_s: float
    """Seconds, counted from the moment the call is handed to a process."""
    context: ToolContext = field(default_factory=ToolContext)
    """Its ``report`` is not used: progress goes to ``on_progress``."""
