"""Decides which edge a run takes when the work of a node is done. Pure."""

from collections.abc import Mapping

from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.state import State, holds
from pentad.shared.immutable import immutable


@immutable
class NextNode:
    """The run goes on with this node, or ends."""

    node: str | None
    """Key of the node; None: the run has come to its end."""


@immutable
class JudgeEdges:
    """A model must judge conditions first, all of a node in one question."""

    edges: tuple[int, ...]
    """Numbers of the edges among those of the node."""


@immutable
class CheckEdge:
    """A tool must check the condition of an edge first."""

    edge: int
    tool: str


@immutable
class NoWay:
    """No condition holds, and the node has no default edge and is no end."""


Decision = NextNode | JudgeEdges | CheckEdge | NoWay


def decided(
    graph: GraphSpec, node: str, known: Mapping[int, bool], state: State, until: str, *, part: bool
) -> Decision:
    """Decide where the run goes from a node.

    ``known``: outcomes of conditions that were judged or checked, by the numbers of the edges. ``until``: key of the
    node before which this task ends; '' for none. ``part``: whether the task is a branch or an item: it ends at a node
    without edges, too.
    """
    found = _target(graph, node, known, state, part=part)
    return NextNode(None) if isinstance(found, NextNode) and until and found.node == until else found


def _target(graph: GraphSpec, node: str, known: Mapping[int, bool], state: State, *, part: bool) -> Decision:
    following = graph.by_key[node].following
    if following is not None:
        return NextNode(following)
    edges = graph.edges_by_source.get(node, ())
    for number, edge in enumerate(edges):
        if edge.where is not None and holds(state, edge.where):
            return NextNode(edge.target)
        if edge.when is None and edge.check is None:
            continue
        if number not in known:
            if edge.check is not None:
                return CheckEdge(number, edge.check)
            judged = [n for n, each in enumerate(edges) if each.when is not None and n not in known]
            return JudgeEdges(tuple(judged))
        if known[number]:
            return NextNode(edge.target)
    default = next((edge.target for edge in edges if edge.is_default), None)
    if default is not None:
        return NextNode(default)
    return NextNode(None) if node in graph.ends or (part and not edges) else NoWay()
