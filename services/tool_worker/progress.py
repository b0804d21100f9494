"""What a running tool says of itself, on its way to the clients."""

from time import monotonic, time_ns

from contracts.commands import ToolCallCommand
from contracts.events import ToolProgress
from contracts.ids import rfc3339
from services.tool_worker.domain import EVENT_LIMIT, clip
from shared.settings import Settings
from shared.state.keys import SessionKeys, bell
from shared.state.store import Store


class Progress:
    """Tells clients how far a tool is, no oftener than deltas are written. What is lost is not missed."""

    def __init__(self, store: Store, session: SessionKeys, command: ToolCallCommand, settings: Settings) -> None:
        self._store, self._session, self._command, self._settings = store, session, command, settings
        self._last = float("-inf")
        self._n = 0

    def __call__(self, content: str, fraction: float | None) -> None:
        now = monotonic()
        if now - self._last < self._settings.pentad_coalesce_ms / 1000:
            return
        self._last, self._n = now, self._n + 1
        c = self._command
        event = ToolProgress(
            event_id=f"{c.tool_call_id}.progress.{self._n}",
            at=rfc3339(time_ns() // 1_000_000),
            tenant_id=c.tenant_id,
            session_id=c.session_id,
            task_id=c.task_id,
            correlation_id=c.correlation_id,
            causation_id=c.event_id,
            tool_call_id=c.tool_call_id,
            tool=c.tool,
            content=clip(content, EVENT_LIMIT),
            fraction=fraction,
        )
        maxlen = self._settings.pentad_events_maxlen
        self._store.send("XADD", self._session.events, "MAXLEN", "~", maxlen, "*", "data", event.to_json())
        self._store.send("XADD", bell(self._session.shard), "MAXLEN", "~", 1000, "*", "s", self._session.actor)
