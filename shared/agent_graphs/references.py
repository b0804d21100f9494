"""Finds what a graph names and nobody knows, and graphs that run themselves. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pentad.contracts.graph_nodes import GraphNode, LlmNode, ToolNode
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import is_agent
from pentad.shared.immutable import immutable

_MAX_NAMED = 8
"""Graphs of a recursion that are named."""


@immutable
class KnownNames:
    """The names that graphs may use."""

    instructions: Collection[str]
    models: Collection[str]
    """Ids of chat models."""
    graphs: Mapping[str, GraphSpec]


def reference_problems(graph: GraphSpec, known: KnownNames) -> list[str]:
    """Return the unknown instructions, models and graphs that a graph names, each with its place, and its recursion.

    Unknown tools are no mistake, because a worker that has them may come: `unknown_tools`.
    """
    return [*_unknown(graph, known), *_recursion(graph, known.graphs)]


def _unknown(graph: GraphSpec, known: KnownNames) -> Iterator[str]:
    for number, node in enumerate(graph.nodes):
        place = f"nodes[{number}] ({node.key})"
        if isinstance(node, LlmNode):
            name, model = node.instruction, node.model
            if name is not None and name in known.graphs:
                yield f'{place}.instruction: {name!r} is a graph: write kind "graph"'
            elif name is not None and name not in known.instructions:
                yield f"{place}.instruction: there is no instruction {name!r}"
            if model is not None and model not in known.models:
                yield f"{place}.model: there is no chat model {model!r}: register it first"
        elif isinstance(node, GraphNode) and node.graph not in known.graphs and node.graph != graph.name:
            if node.graph in known.instructions:
                yield f'{place}.graph: {node.graph!r} is an instruction: write kind "llm" and instruction'
            else:
                yield f"{place}.graph: there is no graph {node.graph!r}"


def _recursion(graph: GraphSpec, graphs: Mapping[str, GraphSpec]) -> list[str]:
    way = recursion_of(graph, graphs)
    if way is None:
        return []
    number, node = next(
        (number, node)
        for number, node in enumerate(graph.nodes)
        if isinstance(node, GraphNode) and node.graph == way[1]
    )
    shown = way if len(way) <= _MAX_NAMED else [*way[: _MAX_NAMED - 2], "...", way[-1]]
    return [f"nodes[{number}] ({node.key}).graph: the graph would run itself: {' -> '.join(shown)}"]


def recursion_of(graph: GraphSpec, graphs: Mapping[str, GraphSpec]) -> Sequence[str] | None:
    """Return the names of the graphs by which a graph runs itself, its own first and last; None if it does not.

    ``graphs``: the others by name. Another graph with its name is not looked at, and neither is what is not there.
    """
    came_from: dict[str, str] = {}
    waiting = [graph.name]
    while waiting:
        name = waiting.pop()
        for each in sub_graphs(graph if name == graph.name else graphs[name]):
            if each == graph.name:
                return _way(graph.name, name, came_from)
            if each in graphs and each not in came_from:
                came_from[each] = name
                waiting.append(each)
    return None


def _way(first: str, last: str, came_from: Mapping[str, str]) -> list[str]:
    way: list[str] = []
    while last != first:
        way.append(last)
        last = came_from[last]
    return [first, *reversed(way), first]


def sub_graphs(graph: GraphSpec) -> list[str]:
    """Return the names of the graphs that the nodes of a graph run, each once."""
    return [*dict.fromkeys(node.graph for node in graph.nodes if isinstance(node, GraphNode))]


def models_of(graph: GraphSpec) -> list[str]:
    """Return the ids of the models that the nodes of a graph name, each once."""
    return [*dict.fromkeys(node.model for node in graph.nodes if isinstance(node, LlmNode) and node.model is not None)]


def tools_of(graph: GraphSpec) -> list[str]:
    """Return the names of the tools that a graph's nodes and conditions name, each once."""
    offered = [name for node in graph.nodes if isinstance(node, LlmNode) for name in node.tools or ()]
    of_nodes = [name for name in offered if not is_agent(name)]
    called = [node.tool for node in graph.nodes if isinstance(node, ToolNode)]
    return [*dict.fromkeys([*of_nodes, *called, *(edge.check for edge in graph.edges if edge.check is not None)])]


def unknown_tools(graph: GraphSpec, tools: Collection[str]) -> list[str]:
    """Return the places at which a graph names tools that are not among these, with the tools."""
    named = [
        (f"nodes[{number}] ({node.key}).{field}", name)
        for number, node in enumerate(graph.nodes)
        for field, names in (
            ("tools", (node.tools or ()) if isinstance(node, LlmNode) else ()),
            ("tool", (node.tool,) if isinstance(node, ToolNode) else ()),
        )
        for name in names
    ]
    checks = ((number, edge.check) for number, edge in enumerate(graph.edges))
    named += [(f"edges[{number}].check", name) for number, name in checks if name is not None]
    return [
        f"{place}: no worker has a tool {name!r} now"
        for place, name in named
        if name not in tools and not is_agent(name)
    ]
