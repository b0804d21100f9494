"""Calls of tools that this worker does not have: whether another worker does, and what is said while they wait."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Literal

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.ids import rfc3339
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.presence.published import TOOLS, Beaten
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_FRESH_S = 1.0
_SURE_S = 3.0
"""A registry that Redis has lost is written again within a second: only what is missing for longer is gone."""
_SAY_S = 5.0
_MAX_REMEMBERED = 1000
"""Tools and calls that are remembered."""
_say = ThrottledLog(logging.getLogger(__name__))


class GoneTools:
    """The source of tools that no worker has any more: each call of one is answered with that."""

    quick = False
    tools: Mapping[str, ToolSpec] = MappingProxyType({})

    async def start(self, changed: Callable[[], None]) -> None:
        """Do nothing: this source needs no start."""

    async def stop(self, grace_s: float) -> None:
        """Do nothing: this source needs no stop."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        return ToolOutcome("error", f"no tool-worker has {invocation.tool!r} any more: it was removed or renamed")


class OtherWorkers:
    """Knows which tools other workers have."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._there: dict[str, Beaten[ToolSpec]] = {}
        self._now = 0
        self._read_at = float("-inf")
        self._missing: dict[str, float] = {}
        """Since when tools that are asked for are in no registry."""
        self._told: dict[str, float] = {}
        """When it was last said of a call that it waits."""
        self._gone = GoneTools()

    async def look(
        self, command: ToolCallCommand, progress: Callable[[ToolCallCommand], OnProgress]
    ) -> GoneTools | None:
        """Return the source that answers this call in place of its tool.

        None: the call waits for a worker that has the tool, and clients are told so.
        """
        where = await self._where(command.tool)
        if where == "silent":
            self._say_it_waits(command, progress)
        return self._gone if where == "gone" else None

    async def _where(self, tool: str) -> Literal["there", "silent", "gone"]:
        """``silent``: a worker has had it, which was not heard of lately and may come back."""
        if monotonic() - self._read_at > _FRESH_S:
            raw, self._now = await TOOLS.fetch(self._store), await self._store.clock()
            self._there, self._read_at = TOOLS.beats(raw, self._now), monotonic()
        found = self._there.get(tool)
        if found is not None:
            self._missing.pop(tool, None)
            return "there" if found.alive(self._now) else "silent"
        _bound(self._missing)
        return "gone" if monotonic() - self._missing.setdefault(tool, monotonic()) > _SURE_S else "there"

    def _say_it_waits(self, command: ToolCallCommand, progress: Callable[[ToolCallCommand], OnProgress]) -> None:
        if monotonic() - self._told.get(command.tool_call_id, float("-inf")) < _SAY_S:
            return
        _bound(self._told)
        self._told[command.tool_call_id] = monotonic()
        tool, seen = command.tool, rfc3339(self._there[command.tool].beat)
        progress(command)(f"waits for a tool-worker that has {tool}: the last was there at {seen}", None)
        _say.warning(tool, "a call of %s waits for a tool-worker that has it: the last was there at %s", tool, seen)


def _bound(remembered: dict[str, float]) -> None:
    if len(remembered) >= _MAX_REMEMBERED:
        remembered.clear()
