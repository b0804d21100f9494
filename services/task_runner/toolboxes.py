"""The tools that a model is offered: those that there are, that its instruction allows, and that it can pay for."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pentad.contracts.graphs import Runnable
from pentad.contracts.instructions import Instruction, OutputMode
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.client_tools import NO_CLIENT_TOOLS, OfferedClientTools
from pentad.services.task_runner.domain.own_tools import agent_spec, offered
from pentad.services.task_runner.domain.tool_search import shown_tools
from pentad.services.task_runner.prompt import Toolbox
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.token_counter import TokenCounter

_MOST_KEPT, _MOST_FOR_CLIENTS = 256, 16
"""Toolboxes that are kept, and those with tools of clients: one such may have megabytes, and anybody makes another."""
_WINDOW_PART = 4
"""Part of a model's window that schemas of tools may cost where the instruction does not say: one of so many."""
MAX_SHOWN = 40
"""Tools whose schemas a model is shown at once, where the instruction does not say what they may cost: among more,
models choose badly."""


class PromptFacts(NamedTuple):
    """Facts about a task and its prompt that decide which tools are offered: see `offered`."""

    reads_results: bool
    in_graph: bool
    opens_messages: bool
    found: str
    """Names of tools that the model has found, where not all are shown."""


class ToolUser(NamedTuple):
    """The one for whom tools are called: a user of a tenant, or nobody that is known."""

    tenant: str
    user: str | None


class SchemaLimits(NamedTuple):
    """The limits of the schemas that a model is shown; None for no limit."""

    tokens: int | None
    tools: int | None

    def hold(self, shown: Toolbox, counter: Callable[[], TokenCounter]) -> bool:
        """Return whether the schemas of a toolbox are within both limits."""
        if self.tools is not None and len(shown.specs) > self.tools:
            return False
        return self.tokens is None or counter().count((), shown.json) <= self.tokens


_Agents = tuple[tuple[str, str, str], ...]
_Key = tuple[tuple[str, ...] | None, OutputMode, PromptFacts, _Agents, frozenset[str], str, SchemaLimits | None]
"""All that decides which tools are offered: the names that the instruction allows (None: all), its output, the facts,
the agents that it may call, the tools that are kept from the user, the digest of the client's, and the limits of
schemas (None: they are within them)."""


class Toolboxes:
    """Makes toolboxes, and keeps them while the published tools stay as they are."""

    def __init__(self, tools: ToolCatalog, models: ModelPool) -> None:
        self._tools, self._models = tools, models
        self._made_of: Mapping[str, ToolSpec] = {}
        """Published tools of which the toolboxes below were made."""
        self._made: dict[_Key, Toolbox] = {}
        self._for_clients: dict[_Key, Toolbox] = {}

    async def of(
        self,
        instruction: Instruction,
        agents: Mapping[str, Runnable],
        shown: PromptFacts,
        whose: ToolUser,
        client: OfferedClientTools = NO_CLIENT_TOOLS,
    ) -> Toolbox:
        """Return the tools of an instruction. ``agents``: those that it may call, by the names of their tools.

        ``whose``: the one for whom they are called. ``client``: the tools of that one's client.
        """
        specs = await self._tools.specs()
        kept = await self._tools.kept_from(whose.tenant, whose.user)
        if specs is not self._made_of or len(self._made) > _MOST_KEPT:
            self._made_of, self._made, self._for_clients = specs, {}, {}
        while len(self._for_clients) > _MOST_FOR_CLIENTS:
            del self._for_clients[next(iter(self._for_clients))]
        made = self._for_clients if client.digest else self._made
        names = None if instruction.tools is None else tuple(instruction.tools)
        described = tuple([(name, agent.name, agent.description) for name, agent in agents.items()])
        key: _Key = (names, instruction.output, shown._replace(found=""), described, kept, client.digest, None)
        toolbox = made.get(key)
        if toolbox is None:
            there = {name: spec for name, spec in specs.items() if name not in kept} if kept else specs
            given = offered(instruction, there, shown.reads_results, shown.in_graph, shown.opens_messages)
            given |= {name: agent_spec(agent) for name, agent in agents.items()}
            given |= client.specs
            toolbox = made[key] = Toolbox(given)
        limits = self._limits(instruction)

        def counter() -> TokenCounter:
            return self._models.counter(instruction.model)

        if toolbox.json is None or limits.hold(toolbox, counter):
            return toolbox
        key = (names, instruction.output, shown, described, kept, client.digest, limits)
        short = made.get(key)
        if short is None:
            given = dict(toolbox.specs)

            def fits(some: Collection[ToolSpec]) -> bool:
                return limits.hold(Toolbox({spec.name: spec for spec in some}), counter)

            short = made[key] = Toolbox(given, shown_tools(given, shown.found.split(), fits))
        return short

    def _limits(self, instruction: Instruction) -> SchemaLimits:
        if instruction.tool_schema_tokens is not None:
            return SchemaLimits(instruction.tool_schema_tokens, None)
        window = self._models.window(instruction.model)
        return SchemaLimits(None if window is None else window // _WINDOW_PART, MAX_SHOWN)
