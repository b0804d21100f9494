"""Where a worker's tools come from: a port, and the sources of one worker together."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol

from pentad.contracts.suspensions import Resumption
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.shared.immutable import immutable
from pentad.shared.plugins.companions import CompanionKind, companion_name
from pentad.shared.plugins.context import ToolContext

log = logging.getLogger(__name__)


OnProgress = Callable[[str, float | None], None]
"""Takes what a running tool says of itself, and how far it is (0 to 1)."""


Part = Literal["call"] | CompanionKind
"""Part of a tool: its function, or a companion that decides about its calls."""


@immutable
class ToolInvocation:
    """One attempt of one tool call, or of one hook."""

    tool: str
    args: dict[str, Any]
    timeout_s: float
    """Seconds, counted from the moment the call is handed to a process."""
    context: ToolContext = field(default_factory=ToolContext)
    """Context of the call. Its ``report`` is not used: progress goes to ``on_progress``."""
    word: Literal["tool", "hook"] = "tool"
    part: Part = "call"
    """Part of the tool that is run."""
    resumed: Resumption | None = None
    """Answer with which a suspended call goes on; None for a call that begins."""
    keeps_files: bool = False
    """Whether files that the call makes are kept in the workspace of its session."""

    @property
    def files_of(self) -> str | None:
        """Id of the call whose files are kept; None where none are."""
        return self.context.tool_call_id if self.keeps_files else None

    @property
    def name(self) -> str:
        """Name of what is run, in its process."""
        return self.tool if self.part == "call" else companion_name(self.tool, self.part)

    @property
    def title(self) -> str:
        """The tool or hook in words."""
        return f"{self.word} {self.name!r}"


class ToolSource(Protocol):
    """Tools of one kind: built in, in child processes, on a server."""

    @property
    def quick(self) -> bool:
        """Whether calls end so fast that pure ones run without a claim, without a context and without progress."""

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools that it has now, by name; known after ``start``."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Make it ready. Raises ``PluginError`` with what is wrong.

        ``changed``: called on the event loop whenever `tools` have become others after the start.
        """

    async def stop(self, grace_s: float) -> None:
        """Let calls finish for so many seconds, then end them as ``interrupted``."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one attempt of a call. Never raises for what a tool does; cancelling it cancels the tool.

        ``alone``: an attempt before may have brought its process down. An outcome may be ``suspended``: the call is
        then made again with what it needs, ``resumed``, by whichever worker.
        """


class ToolSources:
    """The sources of one worker. Of two tools with one name, that of the later source is there: plug-ins come after
    what is built in, and what the program hands over comes last."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources
        self._replaced: set[str] = set()

    async def start(self, changed: Callable[[], None]) -> None:
        """Start all, or none. Raises ``PluginError``.

        ``changed``: called whenever one has other tools after the start.
        """

        def noted() -> None:
            self._warn_of_replaced()
            changed()

        started = list[ToolSource]()
        try:
            for source in self._sources:
                started.append(source)
                await source.start(noted)
        except BaseException:
            for source in started:
                await source.stop(0)
            raise
        self._warn_of_replaced()

    async def stop(self, grace_s: float) -> None:
        """Stop all."""
        for source in self._sources:
            await source.stop(grace_s)

    def of(self, tool: str) -> ToolSource | None:
        """Where a tool is; None when it is not here."""
        return next((source for source in reversed(self._sources) if tool in source.tools), None)

    def specs(self) -> list[ToolSpec]:
        """Return all tools that there are now, each name once."""
        return list({name: spec for source in self._sources for name, spec in source.tools.items()}.values())

    def _warn_of_replaced(self) -> None:
        """Log once of each tool that it replaces one of an earlier source."""
        there: set[str] = set()
        for source in self._sources:
            replaced = there.intersection(source.tools)
            for name in sorted(replaced - self._replaced):
                log.warning("the tool %r of a plug-in or of this program replaces another of its name", name)
            self._replaced |= replaced
            there.update(source.tools)
