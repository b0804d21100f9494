"""Agents as objects, each with a way to work: a thin face over tasks of the built-in instructions and graphs.

    async with pentad.connect() as system:
        agent = pentad.agents.ReActAgent("helper", agent=system, system_prompt="You help.", tools=["calculator"])
        print(await agent.run("What is 2**10?"))

An agent is one conversation: each ``run`` goes on with its task. What it is made of lies in the system, so its task
survives this program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pentad.client.agent import Agent
from pentad.client.graph_builder import tool_name
from pentad.client.turns import About, new_session
from pentad.contracts.commands import NEW_TASK
from pentad.contracts.instructions import Instruction
from pentad.errors import NotFound, Refused
from pentad.shared.instructions.builtin import BUILT_IN, PLAN_SOLVE

_ROLES = ("user", "assistant", "system")


class StrategyAgent:
    """An agent with a name, which works in one way: the way of its class."""

    strategy: ClassVar[str] = "executor"
    """Name of the built-in instruction or graph that the agent runs."""

    def __init__(
        self,
        name: str,
        *,
        agent: Agent,
        llm: str | None = None,
        system_prompt: str | None = None,
        tools: Sequence[str | Callable[..., Any]] | None = None,
        user_id: str | None = None,
    ) -> None:
        """``agent``: the connection to the system (``pentad.connect()``, ``pentad.start()``).

        ``llm``: id of the model, the default one when missing. ``system_prompt`` and ``tools`` (names, functions with
        ``@pentad.tool``, ``agent:NAME``) go before those of the strategy. With any of the three the agent registers an
        instruction or a graph under its name, which needs the admin key. ``user_id``: the person it speaks with.
        """
        self.name = name
        self._agent, self._user_id = agent, user_id
        self._own = {"model": llm, "system_prompt": system_prompt, "tools": _names(tools)}
        self._session = new_session()
        self._task: str | None = NEW_TASK
        """Task of the conversation, `NEW_TASK` before it is known."""
        self._told: list[str] = []
        self._registered = False

    async def run(self, input: str, *, tools: Sequence[Any] | None = None) -> str:  # noqa: A002 - a name of seed documents
        """Say something to the agent and wait for its answer. Raises what ``Agent.ask`` does.

        ``tools``: the program's own, functions that the model may call and this call runs, as of ``Agent.send``. Those
        of the class's ``tools`` are run by the system.
        """
        runs = await self._runs()
        said = "\n\n".join([*self._told, input])
        bound = self._agent.session(self._session, self._user_id)
        about: About = {"task_id": self._task, "tools": tools}
        if self._task == NEW_TASK:
            about["instruction"] = runs
        answered = await bound.ask(said, trace=True, **about)
        self._task, self._told = answered.task_id, []
        return answered.value

    def add_message(self, content: str, role: str = "user") -> None:
        """Add something that was said elsewhere: the next ``run`` tells it before its own words."""
        if role not in _ROLES:
            raise Refused(f"role: one of {', '.join(_ROLES)}, not {role!r}")
        self._told.append(content if role == "user" else f"[{role}] {content}")

    async def get_history(self) -> list[dict[str, Any]]:
        """Return what was said so far, the oldest first: ``role`` and ``content`` of users' messages and answers."""
        if self._task is None or self._task == NEW_TASK:
            return []
        found = await self._agent.inspection.transcript(self._task)
        said = [line for line in found.messages if line.get("role") in ("user", "assistant") and line.get("content")]
        return [{"role": line["role"], "content": line["content"]} for line in said if not line.get("origin")]

    def clear_history(self) -> None:
        """Begin a new conversation with the next ``run``. The old one stays in the system."""
        self._session, self._task, self._told = new_session(), NEW_TASK, []

    async def _runs(self) -> str:
        """Return the name of what the agent runs; register it first if it is not the built-in one."""
        own = {key: value for key, value in self._own.items() if value is not None}
        if not own:
            return self.strategy
        if not self._registered:
            await self._register(own)
            self._registered = True
        return self.name

    async def _register(self, own: Mapping[str, Any]) -> None:
        body = instruction_of(self.strategy, self.name, own)
        try:
            known = await self._agent.inspection.instruction(self.name)
        except NotFound:
            known = {}
        if any(known.get(key) != value for key, value in body.items()):
            await self._agent.management.register_instruction(**body)


class UnifiedAgent(StrategyAgent):
    """Calls tools as functions where its model can, else in text."""

    strategy = "unified"


class SimpleAgent(StrategyAgent):
    """Answers without tools."""

    strategy = "simple"


class ReActAgent(StrategyAgent):
    """Thinks, acts and observes in text."""

    strategy = "react"


class FunctionCallAgent(StrategyAgent):
    """Calls tools as functions."""

    strategy = "function_call"


class MemoryAgent(StrategyAgent):
    """Looks into the long-term memory before it answers, and notes what will be worth knowing."""

    strategy = "memory"


class PlanSolveAgent(StrategyAgent):
    """Makes a plan, carries out its steps, plans anew when one fails, and sums up."""

    strategy = "plan_solve"

    async def _register(self, own: Mapping[str, Any]) -> None:
        await self._agent.management.register_graph(graph_of(self.name, own))


def instruction_of(strategy: str, name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a strategy's instruction under another name, with these in their places."""
    fields = BUILT_IN[strategy].model_dump(mode="json", exclude_defaults=True)
    made = Instruction.model_validate({**fields, "name": name, **own})
    return made.model_dump(mode="json", exclude_defaults=True) | {"tool_rounds": made.tool_rounds}


def graph_of(name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``plan_solve`` under another name. A system prompt comes before that of each node, tools are those of the
    node that acts.
    """
    graph = PLAN_SOLVE.model_dump(mode="json", exclude_none=True, by_alias=True) | {"name": name}
    for node in graph["nodes"]:
        if "model" in own:
            node["model"] = own["model"]
        if "system_prompt" in own:
            node["system_prompt"] = f"{own['system_prompt']}\n\n{node['system_prompt']}"
        if "tools" in own and node["key"] == "act":
            node["tools"] = own["tools"]
    return graph


def _names(tools: Sequence[str | Callable[..., Any]] | None) -> list[str] | None:
    return None if tools is None else [tool_name("tools", tool) for tool in tools]
