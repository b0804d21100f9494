"""Breakers of tools: calls of a tool that keeps failing are refused for a while, of the tenant whose calls fail.

What has failed is told to Redis, and all workers hear of it within a second. A tool that does not fail costs nothing.
"""

import asyncio
import logging
from time import monotonic
from typing import Literal, NoReturn

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.tools import Rate, ToolOutcome, ToolSpec
from pentad.services.tool_worker.errands import Errands
from pentad.shared import metrics
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.keys import BREAKER_CHANGES, TOOL_BREAKER, tool_breaker
from pentad.shared.presence.tool_states import refusal_text
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

_READ_S = 0.5
"""Seconds between two readings of what other workers have noted."""
_MAX_REASON_BYTES = 300
"""Bytes of a failure's text that are repeated to whoever is refused."""
_MAX_KNOWN = 10_000
"""Breakers that are remembered here; more are forgotten, which lets calls be made."""
_TRIAL_MARGIN_S = 10.0
"""Seconds beyond its tool's time limit after which a trial counts as lost."""

Note = Literal["failed", "lost", "ok", "gone", "try"]
_FAILURES = frozenset({"error", "timeout", "crashed", "interrupted", "unknown"})
"""Kinds of outcomes that are failures of the tool."""
_LOSSES = frozenset({"interrupted", "unknown"})
"""Kinds of failures that several calls share when their process or their worker is lost: together they count once."""


@immutable
class BreakerState:
    """State of one breaker, as far as it is known here: calls of its tool have failed lately."""

    row: int
    """Failures in a row."""
    reason: str
    """Text of the last failure."""
    until: float | None
    """Time of `monotonic` until which calls are refused; None: they are made."""
    trial_until: float
    """Time of `monotonic` until which a trial goes on."""


def _key_of(command: ToolCallCommand) -> str:
    return f"{command.tool}:{command.tenant_id}"


class ToolBreakers:
    """Keeps to the breakers of tools, together with all other workers. Belongs to one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, BreakerState] = {}
        self._seen = 0
        """Number of the last change that is known."""
        self._errands = Errands(store, "breakers of tools")

    def refuses(self, command: ToolCallCommand) -> bool:
        """Whether calls are refused just now, as far as is known here."""
        known, now = self._known.get(_key_of(command)), monotonic()
        return known is not None and known.until is not None and now < max(known.until, known.trial_until)

    async def refusal(self, command: ToolCallCommand, spec: ToolSpec) -> str | None:
        """Return why a call is not made; None for one that is, or that becomes the trial. Raises ``OutageError``."""
        known = self._known.get(_key_of(command))
        if known is None or known.until is None or spec.breaker is None:
            return None
        now = monotonic()
        if now >= known.until and now >= known.trial_until and await self._note(command, spec, "try"):
            return None
        known = self._known.get(_key_of(command), known)
        metrics.tool_refusals.labels(command.tool).inc()
        left = None if known.until is None or now >= known.until else known.until - now
        at = None if left is None else await self._store.now_ms() + round(left * 1000)
        return refusal_text(command.tool, known.row, known.reason, at)

    def note(self, command: ToolCallCommand, spec: ToolSpec, outcome: ToolOutcome | None) -> None:
        """Note how a call has ended. None: it has told nothing of its tool."""
        if spec.breaker is None:
            return
        if outcome is not None and outcome.kind in _FAILURES:
            how: Note = "lost" if outcome.kind in _LOSSES else "failed"
            self._errands.run(self._note(command, spec, how, outcome.text))
        elif _key_of(command) in self._known:
            worked = outcome is not None and outcome.kind in ("ok", "suspended")
            self._errands.run(self._note(command, spec, "ok" if worked else "gone"))

    async def _note(self, command: ToolCallCommand, spec: ToolSpec, what: Note, reason: str = "") -> bool:
        """Tell Redis, and hear what it makes of that. Return whether a trial may be made."""
        rate = Rate.parse(spec.breaker or "1/s")
        name, trial_ms = _key_of(command), round((command.timeout + _TRIAL_MARGIN_S) * 1000)
        shown = clip(" ".join(reason.split()), _MAX_REASON_BYTES)
        names = [tool_breaker(name), BREAKER_CHANGES]
        args: list[Argument] = [what, name, command.tool_call_id, rate.calls, rate.window_ms, trial_ms, shown]
        done = await self._store.run("breaker_note", names, args)
        if done and what == "ok":
            self._known.pop(name, None)
        await self._read()
        return bool(done)

    async def _read(self) -> None:
        """Read what has changed, also by other workers."""
        number, lost, *news = await self._store.run("breaker_news", [BREAKER_CHANGES], [self._seen, TOOL_BREAKER])
        if lost:
            self._known.clear()
        self._seen, now = number, monotonic()
        for n in range(0, len(news), 6):
            name, is_there, left, row, reason, trial_left = news[n : n + 6]
            self._known.pop(name.decode(), None)
            if is_there:
                until = None if left == b"" else now + int(left) / 1000
                state = BreakerState(int(row), reason.decode(errors="replace"), until, now + int(trial_left) / 1000)
                self._known[name.decode()] = state
        while len(self._known) > _MAX_KNOWN:
            self._known.pop(next(iter(self._known)))

    async def run(self) -> NoReturn:
        """Read what other workers have noted. Runs for ever."""
        while True:
            await asyncio.sleep(_READ_S)
            await self._errands.quietly(self._read())

    async def finish(self) -> None:
        """Tell what has ended, before the worker stops."""
        await self._errands.finish("a failure of a tool")
