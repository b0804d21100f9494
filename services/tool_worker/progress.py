"""What a running tool says of itself, on its way to the clients."""

from time import monotonic, time_ns

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import ToolProgress
from pentad.contracts.ids import rfc3339
from pentad.services.tool_worker.domain import EVENT_LIMIT
from pentad.shared.clipping import clip
from pentad.shared.events.ephemeral import EphemeralEvents


class Progress:
    """Tells clients how far a tool is, no oftener than deltas are written. What is lost is not missed."""

    def __init__(self, events: EphemeralEvents, command: ToolCallCommand, every_ms: int) -> None:
        self._events, self._command, self._pause = events, command, every_ms / 1000
        self._last = float("-inf")
        self._n = 0

    def __call__(self, content: str, fraction: float | None) -> None:
        now = monotonic()
        if now - self._last < self._pause:
            return
        self._last, self._n = now, self._n + 1
        c = self._command
        event = ToolProgress(
            event_id=f"{c.tool_call_id}.progress.{self._n}",
            at=rfc3339(time_ns() // 1_000_000),
            **c.led_to(),
            tool_call_id=c.tool_call_id,
            tool=c.tool,
            content=clip(content, EVENT_LIMIT),
            fraction=fraction,
        )
        self._events.append(ToolProgress, event.to_json())
        self._events.keep()
        self._events.ring()
