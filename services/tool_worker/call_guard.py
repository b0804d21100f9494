"""The guard of calls: one of a tool with a limit waits for its turn, one of a tool that keeps failing is refused."""

from typing import Literal

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.breakers import ToolBreakers
from pentad.services.tool_worker.limits import ToolLimits
from pentad.shared.immutable import immutable
from pentad.shared.work.entry import Entry


@immutable
class Admission:
    """Answer to a call that wants to run."""

    verdict: Literal["runs", "waits", "closed", "taken", "refused"]
    why: str = ""
    """Reason why it is refused, or what it waits for."""


class CallGuard:
    """The limits and the breakers of one worker's tools."""

    def __init__(self, limits: ToolLimits, breakers: ToolBreakers) -> None:
        self.limits, self.breakers = limits, breakers

    async def admit(self, spec: ToolSpec, entry: Entry, command: ToolCallCommand) -> Admission:
        """Ask whether a call may run. Raises ``OutageError``.

        One that was taken over may have started: it is never refused, for that would tell that it was not made.
        """
        may_be_refused = spec.breaker is not None and not entry.redelivered
        if may_be_refused and self.breakers.refuses(command):
            return await self._asked(spec, command)
        limit = spec.limit
        if limit is not None:
            verdict = await self.limits.admit(limit, entry, command)
            if verdict != "runs":
                return Admission(verdict, f"waits for its turn: {limit.name} is limited to {limit.told}")
        return await self._asked(spec, command) if may_be_refused else Admission("runs")

    async def _asked(self, spec: ToolSpec, command: ToolCallCommand) -> Admission:
        why = await self.breakers.refusal(command, spec)
        return Admission("runs") if why is None else Admission("refused", why)

    def leave(self, entry: Entry, command: ToolCallCommand, *, keep: bool) -> None:
        """Give back what a call has taken. ``keep``: see `ToolLimits.leave`."""
        self.limits.leave(entry, command, keep=keep)

    def note(self, spec: ToolSpec | None, command: ToolCallCommand, outcome: ToolOutcome | None) -> None:
        """Note how a call has ended. ``outcome`` None: it has told nothing of its tool."""
        if spec is not None:
            self.breakers.note(command, spec, outcome)

    async def finish(self) -> None:
        """Tell what has ended, before the worker stops."""
        await self.limits.finish()
        await self.breakers.finish()
