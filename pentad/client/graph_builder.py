"""Builds graphs in a program, step by step, as data that a running system takes."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypedDict, Unpack, overload

from pydantic import BaseModel

from pentad.client.agent import Agent
from pentad.client.blocking import SyncAgent, SyncGraphExecution
from pentad.client.graph_execution import GraphExecution
from pentad.contracts.graph_checks import problems_of
from pentad.contracts.graph_nodes import NodeRetry
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import OutputMode
from pentad.errors import WrongGraph
from pentad.shared.agent_graphs.given import WrongSpec, spec_of
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.plugins.registry import definition_of

NamedTool = str | Callable[..., Any]
"""A tool: its name, or a function that is decorated with ``@pentad.tool``."""
Retry = int | Mapping[str, Any] | NodeRetry
"""How often a node is tried: the attempts, or ``{"attempts": 3, "delay": 1.5}``."""


class NodeOptions(TypedDict, total=False):
    """Options that every node may have: see `pentad.contracts.graph_nodes`."""

    description: str
    retry: Retry
    timeout: float
    on_error: str
    writes: str


@dataclass(frozen=True, slots=True)
class AgentGraph:
    """A graph that was built, and never changes. ``spec``: the graph as data."""

    spec: GraphSpec

    @overload
    def validate(self) -> list[str]: ...

    @overload
    def validate(self, agent: SyncAgent) -> list[str]: ...

    @overload
    def validate(self, agent: Agent) -> Coroutine[Any, Any, list[str]]: ...

    def validate(self, agent: Agent | SyncAgent | None = None) -> Any:
        """Return the mistakes of the graph, each with its place; there are none in its structure, once it is built.

        With an ``agent`` those that only its system knows are told: unknown instructions, models, tools and graphs,
        and graphs that run themselves. With an asynchronous agent the list is awaited.
        """
        if agent is not None:
            return agent.inspection.graph_problems(self.spec)
        spec = self.spec
        return problems_of(spec.nodes, spec.edges, spec.entry, spec.ends, spec.state_schema)

    @overload
    def execute(
        self, entry: str | None = ..., initial_state: Mapping[str, Any] | None = ..., *, agent: SyncAgent, **about: Any
    ) -> SyncGraphExecution: ...

    @overload
    def execute(
        self, entry: str | None = ..., initial_state: Mapping[str, Any] | None = ..., *, agent: Agent, **about: Any
    ) -> Coroutine[Any, Any, GraphExecution]: ...

    def execute(
        self,
        entry: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
        *,
        agent: Agent | SyncAgent,
        **about: Any,
    ) -> Any:
        """Begin a run of this graph in a task of its own, and return the `GraphExecution`; with an `Agent` awaited.

        ``entry``: the graph's own, or nothing. ``initial_state``: the state of the run, at most 64 KiB as JSON; a
        user's message in ``context`` is what the run is about. ``about``: that message as ``content`` (else the
        graph's description stands for it), ``session_id``, a new one when not given, and ``user_id``, as of `send`;
        ``on_text``, ``on_tool_start``, ``on_tool_end`` and ``on_complete`` (which has the `GraphResult`), as of `run`,
        which are called while the result is waited for; ``tools``, functions that the models of its nodes may call, and
        which run then, too.

        The graph is registered, if the system does not have this very version of it: that needs the admin key. Raises
        ``ValueError`` for another entry, ``Refused`` for a state or messages that a run cannot have and without the
        admin key, and ``ClientError``.
        """
        return agent.execute_graph(self.spec, entry, initial_state, **about)

    def mermaid(self) -> str:
        """Return a flowchart of the graph in the language of Mermaid."""
        return mermaid(self.spec)


class AgentBuilder:
    """Builds a graph: nodes, edges between them, where it begins and where it ends.

    Its methods return the builder, so that calls can be chained; mistakes are told by `build`, all at once.
    """

    def __init__(self, name: str) -> None:
        self._fields: dict[str, Any] = {"name": name}
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []

    def set_description(self, description: str) -> Self:
        """Say what the graph does, for people and for programs that choose among several."""
        return self._set(description=description)

    def set_max_iterations(self, number: int) -> Self:
        """Bound the nodes that one run may go through, each time counted."""
        return self._set(max_iterations=number)

    def set_timeout(self, seconds: float) -> Self:
        """Bound the time of one run, in seconds."""
        return self._set(timeout=seconds)

    def set_state_schema(self, schema: Mapping[str, Any] | type[BaseModel]) -> Self:
        """Declare the state of a run: a JSON schema of an object, or a pydantic model."""
        return self._set(state_schema=_schema(schema))

    def set_entry_point(self, key: str) -> Self:
        """Say with which node a run begins."""
        return self._set(entry=key)

    def set_end_points(self, keys: Sequence[str]) -> Self:
        """Say after which nodes a run ends."""
        return self._set(ends=[keys] if isinstance(keys, str) else list(keys))

    def _set(self, **fields: Any) -> Self:
        self._fields |= fields
        return self

    def add_llm_node(
        self,
        key: str,
        description: str = "",
        model: str | None = None,
        tools: Sequence[NamedTool] | None = None,
        system_prompt: str | None = None,
        *,
        instruction: str | None = None,
        output: OutputMode | None = None,
        output_schema: Mapping[str, Any] | type[BaseModel] | None = None,
        writes: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        on_error: str | None = None,
    ) -> Self:
        """Add a node that asks a model, which may call tools, until it answers.

        ``tools``: names, or functions decorated with ``@pentad.tool``; None: all tools; empty: none. ``instruction``:
        name of the instruction that the node runs, in place of a prompt of its own. ``output_schema``: a JSON schema or
        a pydantic model; the answer is then ``json``, and is written to the state under the node's key, or ``writes``.
        """
        schema = None if output_schema is None else _schema(output_schema)
        return self._node(
            "llm",
            key,
            description=description,
            model=model,
            tools=None if tools is None else [tool_name(f"node {key!r}: tools", tool) for tool in tools],
            system_prompt=system_prompt,
            instruction=instruction,
            output="json" if output is None and schema is not None else output,
            output_schema=schema,
            writes=writes,
            retry=_retry(retry),
            timeout=timeout,
            on_error=on_error,
        )

    def add_tool_node(
        self, key: str, tool: NamedTool, args: Mapping[str, Any] | None = None, **options: Unpack[NodeOptions]
    ) -> Self:
        """Add a node that makes one tool call. An argument like ``state.city`` stands for a value of the state."""
        name = tool_name(f"node {key!r}: tool", tool)
        return self._node("tool", key, tool=name, args=None if args is None else dict(args), **_options(options))

    def add_graph_node(self, key: str, graph: str | AgentGraph, **options: Unpack[NodeOptions]) -> Self:
        """Add a node that runs another graph as a task of its own."""
        name = graph.spec.name if isinstance(graph, AgentGraph) else graph
        return self._node("graph", key, graph=name, **_options(options))

    def add_ask_node(self, key: str, question: str, **options: Unpack[NodeOptions]) -> Self:
        """Add a node that asks a person a question and waits for the answer."""
        return self._node("ask", key, question=question, **_options(options))

    def add_parallel(
        self,
        key: str,
        branches: Sequence[str],
        join: Literal["all", "any"] | int = "all",
        then: str | None = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Add a node that starts branches side by side, each as a task of its own, and waits for them.

        ``branches``: keys of the nodes with which they begin. ``join``: how many must succeed. ``then``: the node that
        follows, at which branches end.
        """
        return self._node("parallel", key, branches=list(branches), join=join, then=then, **_options(options))

    def add_map(
        self,
        key: str,
        over: str,
        node: str,
        max_parallel: int = 4,
        then: str | None = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Add a node that runs another node for each item of a list, each item as a task of its own.

        ``over``: the place of the list, such as ``state.cities``. ``then``: the node that follows, at which items end.
        """
        fields = {"over": over, "node": node, "max_parallel": max_parallel, "then": then}
        return self._node("map", key, **fields, **_options(options))

    def _node(self, kind: str, key: str, **fields: Any) -> Self:
        given = {name: value for name, value in fields.items() if value is not None}
        self._nodes.append({"key": key, "kind": kind, **given})
        return self

    def add_edge(self, source: str, target: str) -> Self:
        """Add the way that is taken from a node when no conditional edge of it holds."""
        self._edges.append({"from": source, "to": target})
        return self

    def add_conditional_edge(
        self,
        source: str,
        target: str,
        condition: str | Mapping[str, Any] | None = None,
        *,
        check: NamedTool | None = None,
    ) -> Self:
        """Add a way that is taken from a node if it is the first of the node's edges whose condition holds.

        ``condition``: words that a model judges by the conversation, or comparisons of values of the state, all of
        which must hold: ``{"state.score": {">=": 0.8}}``. ``check``: a pure tool that is called with the ``state``.
        """
        edge: dict[str, Any] = {"from": source, "to": target}
        if check is not None:
            edge["check"] = tool_name(f"edge {source!r} to {target!r}: check", check)
        if condition is not None:
            edge |= {"when": condition} if isinstance(condition, str) else {"where": dict(condition)}
        elif check is None:
            raise WrongGraph([f"edge {source!r} to {target!r}: give a condition or check=, or use add_edge"])
        self._edges.append(edge)
        return self

    def build(self) -> AgentGraph:
        """Return the graph, which never changes. Raises ``WrongGraph`` with all mistakes of its structure."""
        try:
            spec = spec_of({**self._fields, "nodes": self._nodes, "edges": self._edges})
        except WrongSpec as error:
            raise WrongGraph(error.problems) from None
        return AgentGraph(GraphSpec.model_validate_json(spec.to_json()))  # nothing in it is the caller's to change


def _schema(given: Mapping[str, Any] | type[BaseModel]) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else given.model_json_schema()


def _retry(given: Retry | None) -> Any:
    return {"attempts": given} if isinstance(given, int) else given


def _options(options: NodeOptions) -> dict[str, Any]:
    given: dict[str, Any] = {**options}
    return given | {"retry": _retry(options.get("retry"))}


def tool_name(place: str, tool: NamedTool) -> str:
    """Return the name of a tool. ``place``: where it is named. Raises ``WrongGraph`` for what is no tool."""
    if isinstance(tool, str):
        return tool
    definition = definition_of(tool)
    if definition is None:
        raise WrongGraph([f"{place}: {tool!r} is no tool: name one, or give a function decorated with @pentad.tool"])
    return definition.spec.name
