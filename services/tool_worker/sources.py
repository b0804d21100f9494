"""Where a worker's tools come from: a port, and the sources of one worker together."""

from collections.abc import Mapping
from typing import Protocol

from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.invocation import OnProgress, ToolInvocation
from pentad.shared.plugins.errors import PluginError


class ToolSource(Protocol):
    """Tools of one kind: built in, in child processes, on a server."""

    @property
    def quick(self) -> bool:
        """Whether its calls are over before a claim would be written: a pure one is then run without."""

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """Its tools by name, known after ``start``."""

    async def start(self) -> None:
        """Make it ready. Raises ``PluginError`` with what is wrong."""

    async def stop(self, grace_s: float) -> None:
        """Let calls finish for so many seconds, then end them as ``interrupted``."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one attempt of a call. Never raises for what a tool does; cancelling it cancels the tool.

        ``alone``: an attempt before may have brought its process down.
        """


class ToolSources:
    """The sources of one worker. No two tools have one name."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources

    async def start(self) -> None:
        """Start all. Raises ``PluginError``, also for a name that is taken."""
        taken: set[str] = set()
        for source in self._sources:
            await source.start()
            for name in taken.intersection(source.tools):
                await self.stop(0)
                raise PluginError(f"tool {name!r} has the name of a built-in tool: give it another with name=")
            taken.update(source.tools)

    async def stop(self, grace_s: float) -> None:
        """Stop all."""
        for source in self._sources:
            await source.stop(grace_s)

    def of(self, tool: str) -> ToolSource | None:
        """Where a tool is; None when it is not here."""
        for source in self._sources:
            if tool in source.tools:
                return source
        return None

    def specs(self) -> list[ToolSpec]:
        """All tools."""
        return [spec for source in self._sources for spec in source.tools.values()]
