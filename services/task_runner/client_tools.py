"""The tools that the sender of a turn's message has itself, for the steps of the turn."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field

from pentad.contracts.client_tools import ClientTool
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.step import Step, Steps
from pentad.shared.actors.client_tools import digest_of_client_tools
from pentad.shared.immutable import immutable

_MOST_KEPT = 16
"""Sets of tools that are kept: one may have megabytes when it is read."""


@immutable
class OfferedClientTools:
    """A client's tools as a model is offered them."""

    digest: str = ""
    specs: Mapping[str, ToolSpec] = field(default_factory=dict)
    """The tools by name."""


NO_CLIENT_TOOLS = OfferedClientTools()


class ClientTools:
    """Reads the tools of clients, and keeps those that were read lately, by their digest."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._known: OrderedDict[str, OfferedClientTools] = OrderedDict()

    async def of(self, step: Step, instruction: Instruction) -> OfferedClientTools:
        """Return the tools that the sender of the turn's message has itself. Raises ``DamagedError``.

        A node of a graph whose instruction calls no tools is offered none.
        """
        if step.task.graph and instruction.tools is not None and not instruction.tools:
            return NO_CLIENT_TOOLS
        if step.arrived.users:
            tools = step.arrived.users[-1].message.tools
            return self._kept(digest_of_client_tools(tools), tools) if tools else NO_CLIENT_TOOLS
        digest = step.task.client_tools
        if not digest:
            return NO_CLIENT_TOOLS
        return self._known.get(digest) or self._kept(digest, await self._steps.client_tools(step))

    def _kept(self, digest: str, tools: Sequence[ClientTool]) -> OfferedClientTools:
        made = self._known[digest] = OfferedClientTools(digest, {tool.name: tool.spec for tool in tools})
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return made
