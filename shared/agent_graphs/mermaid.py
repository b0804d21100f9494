"""Draws a graph as a flowchart in the language of Mermaid: the same text for the same graph. Pure."""

from collections.abc import Iterator, Mapping

from pydantic_core import to_json

from pentad.contracts.graph_nodes import FAIL, AskNode, Edge, GraphNode, LlmNode, MapNode, Node, ParallelNode, ToolNode
from pentad.contracts.graphs import GraphSpec
from pentad.shared.clipping import plain

_MAX_LABEL_CHARS = 80
"""Characters of a text of the graph that a label shows."""
_AS_THEY_ARE = frozenset(" _-.,/+=!?()")
"""Signs that mean nothing in a label, beside letters and digits."""
_SHAPES: dict[type, tuple[str, str]] = {
    LlmNode: ('["', '"]'),
    ToolNode: ('[/"', '"/]'),
    GraphNode: ('[["', '"]]'),
    ParallelNode: ('{{"', '"}}'),
    MapNode: ('[\\"', '"/]'),
    AskNode: ('>"', '"]'),
}
"""Beginning and end of each kind of node."""


_STYLES = {"ok": "stroke:#2a7,stroke-width:3px", "failed": "stroke:#c33,stroke-width:3px", "running": "stroke:#36c"}
"""Styles of nodes that a run has come to, by the outcome of its last visit."""


def mermaid(graph: GraphSpec, outcomes: Mapping[str, str] | None = None) -> str:
    """Return the flowchart of a graph. No text of the graph can become a part of the language: see `label`.

    ``outcomes``: outcomes of a run's last visits, by the keys of the nodes, which are marked.
    """
    return "\n".join((*_lines(graph), *_marks(graph, outcomes or {}))) + "\n"


def _marks(graph: GraphSpec, outcomes: Mapping[str, str]) -> Iterator[str]:
    for outcome, style in _STYLES.items():
        marked = [f"n{number}" for number, node in enumerate(graph.nodes) if outcomes.get(node.key) == outcome]
        if marked:
            yield f"    classDef {outcome} {style}"
            yield f"    class {','.join(marked)} {outcome}"


def _lines(graph: GraphSpec) -> Iterator[str]:
    ids = {node.key: f"n{number}" for number, node in enumerate(graph.nodes)}
    yield "flowchart TD"
    yield '    begin(["start"])'
    for node in graph.nodes:
        before, after = _SHAPES[type(node)]
        yield f"    {ids[node.key]}{before}{_about(node)}{after}"
    yield '    finish(["end"])'
    yield f"    begin --> {ids[graph.entry]}"
    for node in graph.nodes:
        yield from _starts(node, ids)
    for edge in graph.edges:
        yield f"    {ids[edge.source]} -->{_condition(edge)} {ids[edge.target]}"
    for key in dict.fromkeys(graph.ends):
        yield f"    {ids[key]} --> finish"


def _starts(node: Node, ids: dict[str, str]) -> Iterator[str]:
    """Draw the ways from a node that no edge says."""
    here = ids[node.key]
    if isinstance(node, ParallelNode):
        for key in node.branches:
            yield f'    {here} -.->|"branch"| {ids[key]}'
    if isinstance(node, MapNode):
        yield f'    {here} -.->|"each item"| {ids[node.node]}'
    if node.following is not None:
        yield f'    {here} -->|"then"| {ids[node.following]}'
    if node.on_error != FAIL:
        yield f'    {here} -.->|"on error"| {ids[node.on_error]}'


def _about(node: Node) -> str:
    """Return the label of a node: its key, and below it what the node does."""
    match node:
        case LlmNode():
            does = node.instruction or node.description
        case ToolNode():
            does = f"tool {node.tool}"
        case GraphNode():
            does = f"graph {node.graph}"
        case ParallelNode():
            does = f"wait for {node.join} of {len(node.branches)}"
        case MapNode():
            does = f"each of {node.over}, {node.max_parallel} at a time"
        case AskNode():
            does = node.question
    return f"{label(node.key)}<br/>{label(does)}" if does else label(node.key)


def _condition(edge: Edge) -> str:
    if edge.when is not None:
        text = edge.when
    elif edge.check is not None:
        text = f"check {edge.check}"
    elif edge.where is not None:
        text = " and ".join(
            f"{path} {operator} {to_json(value).decode()}"
            for path, comparisons in edge.where.items()
            for operator, value in comparisons.items()
        )
    else:
        return ""
    return f'|"{label(text)}"|'


def label(text: str) -> str:
    """Return a text as it may stand between the quotation marks of a label: one line, cut where it is long.

    All signs but letters, digits and a few harmless ones stand as codes of their own, ``#NUMBER;``: quotation marks,
    brackets, tags, backquotes (which begin Markdown), colons and semicolons (which end statements).
    """
    return "".join(
        sign if sign.isalnum() or sign in _AS_THEY_ARE else f"#{ord(sign)};" for sign in plain(text, _MAX_LABEL_CHARS)
    )
