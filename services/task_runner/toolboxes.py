"""The tools that a model is offered: those that there are, that its instruction allows, and that it can pay for."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pentad.contracts.graphs import Runnable
from pentad.contracts.instructions import Instruction, OutputMode
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.domain.own_tools import agent_spec, offered
from pentad.services.task_runner.domain.tool_search import shown_tools
from pentad.services.task_runner.prompt import Toolbox
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.token_counter import TokenCounter

_MOST_KEPT = 256
_WINDOW_PART = 4
"""Part of a model's window that schemas of tools may cost where the instruction does not say: one of so many."""


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


_Agents = tuple[tuple[str, str, str], ...]
_Key = tuple[tuple[str, ...] | None, OutputMode, PromptFacts, _Agents, frozenset[str], int | None]
"""All that decides which tools are offered: the names that the instruction allows (None: all), its output, the facts,
the agents that it may call, the tools that are kept from the user, and the tokens that schemas may cost (None: they are
not too many)."""


class Toolboxes:
    """Makes toolboxes, and keeps them while the published tools stay as they are."""

    def __init__(self, tools: ToolCatalog, models: ModelPool) -> None:
        self._tools, self._models = tools, models
        self._made_of: Mapping[str, ToolSpec] = {}
        """Published tools of which the toolboxes below were made."""
        self._made: dict[_Key, Toolbox] = {}

    async def of(
        self, instruction: Instruction, agents: Mapping[str, Runnable], shown: PromptFacts, whose: ToolUser
    ) -> Toolbox:
        """Return the tools of an instruction. ``agents``: those that it may call, by the names of their tools.

        ``whose``: the one for whom they are called.
        """
        specs = await self._tools.specs()
        kept = await self._tools.kept_from(whose.tenant, whose.user)
        if specs is not self._made_of or len(self._made) > _MOST_KEPT:
            self._made_of, self._made = specs, {}
        names = None if instruction.tools is None else tuple(instruction.tools)
        described = tuple([(name, agent.name, agent.description) for name, agent in agents.items()])
        key: _Key = (names, instruction.output, shown._replace(found=""), described, kept, None)
        toolbox = self._made.get(key)
        if toolbox is None:
            there = {name: spec for name, spec in specs.items() if name not in kept} if kept else specs
            given = offered(instruction, there, shown.reads_results, shown.in_graph, shown.opens_messages)
            given |= {name: agent_spec(agent) for name, agent in agents.items()}
            toolbox = self._made[key] = Toolbox(given)
        most = self._most_tokens(instruction)
        if most is None or toolbox.json is None:
            return toolbox
        counter = self._models.counter(instruction.model)
        if counter.count((), toolbox.json) <= most:
            return toolbox
        key = (names, instruction.output, shown, described, kept, most)
        short = self._made.get(key)
        if short is None:
            given = dict(toolbox.specs)
            short = Toolbox(given, shown_tools(given, shown.found.split(), lambda some: _cost(counter, some) <= most))
            self._made[key] = short
        return short

    def _most_tokens(self, instruction: Instruction) -> int | None:
        """Return the tokens that schemas of tools may cost; None for no limit."""
        if instruction.tool_schema_tokens is not None:
            return instruction.tool_schema_tokens
        window = self._models.window(instruction.model)
        return None if window is None else window // _WINDOW_PART


def _cost(counter: TokenCounter, specs: Collection[ToolSpec]) -> int:
    """Return the tokens of these tools' schemas."""
    return counter.count((), Toolbox({spec.name: spec for spec in specs}).json)
