"""Extraction of knowledge by a model: what it is shown of a finished task, and what its answer adds to the graph. Pure.

A model's answer is not trusted. Items that name no segment that was shown, or that join what belongs to two users, are
refused.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pentad.contracts.ids import milliseconds
from pentad.contracts.records import SegmentType
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import CutTask
from pentad.shared.memory.task_graph import FactRule, every_fact
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import Segment

MOST_SEGMENTS = 120
MOST_QUESTION_CHARS = 24_000
"""Characters of all texts together; later segments are still found, but nothing is extracted from them."""


@immutable
class NearNode:
    """A node that the model may connect by edges."""

    id: str
    user: str | None
    """Holder of the node (`Owner.holder`)."""
    kind: str
    text: str = ""
    """Empty in a stored answer: a record tells no words of other tasks."""


def segments_shown(task: CutTask) -> list[Segment]:
    """Return the segments that the model is shown, in order, numbered from 1; none for a task without text."""
    shown: list[Segment] = []
    chars = 0
    for segment in task.segments:
        chars += len(segment.text)
        if len(shown) == MOST_SEGMENTS or chars > MOST_QUESTION_CHARS:
            break
        if segment.anchor.type is not SegmentType.TOOL_CALL:
            shown.append(segment)
    return shown


StoredAnswer = Mapping[str, Any]
"""An answer in a record: ``value``, the ``segments`` (ids) and ``near`` nodes that it is about, the new nodes that are
the ``same`` as existing ones, the nodes of facts that the rule had ``ruled`` before (by segment), the tasks to be
written before it (``after``), ``model`` and ``at``; or ``problem``: why there is none."""


def facts_by_rule(answer: StoredAnswer | None) -> FactRule:
    """Return which segments state facts by the rule: all without a usable answer; else those that the model was not
    shown, or whose facts had been written by then."""
    if answer is None or "problem" in answer:
        return every_fact
    shown, ruled = frozenset(answer["segments"]), answer.get("ruled", {})
    return lambda segment: segment.id not in shown or segment.id in ruled


MOST_NODES, MOST_EDGES = 40, 60
"""Nodes and edges of one answer that are used, the first."""
MOST_NODE_CHARS = 500
"""Characters of a node's text."""
MOST_SUPPORTS = 16
MIN_NODE_IMPORTANCE = 0.2
"""A node that matters less is refused."""
_KINDS = (NodeKind.CONCEPT, NodeKind.FACT, NodeKind.PROCEDURE, NodeKind.QUESTION, NodeKind.ANSWER)


@immutable
class Extracted:
    """The nodes and edges that an answer adds to the graph."""

    nodes: dict[str, MemoryNode]
    """Nodes by the names that the answer gives them."""
    edges: list[MemoryEdge]
    refused: int
    """Number of refused items of the answer."""

    @property
    def contradicted(self) -> list[MemoryEdge]:
        """The edges whose targets are no longer true."""
        return [edge for edge in self.edges if edge.type is EdgeType.CONTRADICTS]


class _RefusedError(Exception):
    """An item of the answer is refused, because no statement supports it."""


@immutable
class _EdgeEnd:
    id: str
    user: str | None


def extracted(
    tenant: str,
    value: Any,
    segments: Sequence[Segment],
    near: Sequence[NearNode],
    same: Mapping[str, str],
    ruled: Mapping[str, str] | None = None,
) -> Extracted:
    """Return what the answer ``value`` says of these ``segments``, which are in the order in which they were shown.

    ``same``: ids of existing nodes that say the same, by the answer's names. ``ruled``: nodes of facts that the rule
    has found already, by the ids of their segments: they stand for what the model says is a fact there.
    """
    nodes: dict[str, MemoryNode] = {}
    stand_ins: dict[str, _EdgeEnd] = {}
    refused = 0
    for item in items_of(value, "nodes", MOST_NODES):
        try:
            name, node = _node(tenant, item, segments)
            found = _ruled_node(item, segments, ruled or {}) if node.kind is NodeKind.FACT else None
            if found is None:
                nodes[name] = node
            else:
                stand_ins[name] = _EdgeEnd(found, node.owner.holder)
        except _RefusedError:
            refused += 1
    nodes = {name: _with_id(node, same.get(name)) for name, node in nodes.items()}
    ends = {f"k{n}": _EdgeEnd(each.id, each.user) for n, each in enumerate(near, start=1)}
    ends |= stand_ins | {name: _EdgeEnd(node.id, node.owner.holder) for name, node in nodes.items()}
    edges: list[MemoryEdge] = []
    for item in items_of(value, "edges", MOST_EDGES):
        try:
            edges.append(_edge(tenant, item, segments, ends))
        except _RefusedError:
            refused += 1
    return Extracted(nodes, edges, refused)


def without_forgotten(found: Extracted, ids: Collection[str]) -> Extracted:
    """Return an extraction without these nodes and without their edges."""
    nodes = {name: node for name, node in found.nodes.items() if node.id not in ids}
    edges = [edge for edge in found.edges if edge.source not in ids and edge.target not in ids]
    return Extracted(nodes, edges, found.refused)


def _node(tenant: str, item: Mapping[str, Any], segments: Sequence[Segment]) -> tuple[str, MemoryNode]:
    kind, text = item.get("kind"), item.get("text")
    if kind not in _KINDS or not isinstance(text, str) or not any(map(str.isalnum, text[:MOST_NODE_CHARS])):
        raise _RefusedError
    importance = _share(item.get("importance"))
    if importance < MIN_NODE_IMPORTANCE:
        raise _RefusedError
    supports = _supports(item, segments)
    owner = _narrowest(tenant, (support.user for support in supports))
    text = text[:MOST_NODE_CHARS].encode("utf-8", "replace").decode()
    begin, end = _time(item.get("true_from")), _time(item.get("true_until"))
    if begin is not None and end is not None and end < begin:
        begin = end = None
    node = MemoryNode(
        node_id(owner, NodeKind(kind), text), owner, NodeKind(kind), text, importance,
        learned_at=min(each.at for each in supports), supports=supports, true_from=begin, true_until=end,
    )  # fmt: skip
    return str(item.get("id")), node


def _with_id(node: MemoryNode, same: str | None) -> MemoryNode:
    if same is None:
        return node
    return MemoryNode(
        same, node.owner, node.kind, node.text, node.importance, node.learned_at, node.supports, node.true_from,
        node.true_until,
    )  # fmt: skip


def _edge(
    tenant: str, item: Mapping[str, Any], segments: Sequence[Segment], ends: Mapping[str, _EdgeEnd]
) -> MemoryEdge:
    source, target = (ends.get(str(item.get(name))) for name in ("from", "to"))
    kind = item.get("type")
    if source is None or target is None or source.id == target.id or kind not in tuple(EdgeType):
        raise _RefusedError
    supports = _supports(item, segments)
    owner = _narrowest(tenant, (source.user, target.user, *(support.user for support in supports)))
    learned_at = min(each.at for each in supports)
    return MemoryEdge(
        owner, source.id, target.id, EdgeType(kind), _share(item.get("weight")), learned_at, supports=supports
    )


def items_of(value: Any, name: str, most: int) -> Iterable[Mapping[str, Any]]:
    """Return the first items of a list in an answer; none where there is no list."""
    items = value.get(name) if isinstance(value, Mapping) else None
    return [item for item in items if isinstance(item, Mapping)][:most] if isinstance(items, list) else []


def segments_named(item: Mapping[str, Any], first: int, count: int) -> list[int]:
    """Return the numbers of the segments that an item names, of ``count`` segments behind the first ``first``."""
    named = item.get("segments")
    numbers = [n for n in named if isinstance(n, int) and not isinstance(n, bool)] if isinstance(named, list) else []
    return [n for n in dict.fromkeys(numbers) if first < n <= first + count][:MOST_SUPPORTS]


def _supports(item: Mapping[str, Any], segments: Sequence[Segment]) -> tuple[Support, ...]:
    """Return the statements that an item names; at least one must exist."""
    real = segments_named(item, 0, len(segments))
    if not real:
        raise _RefusedError
    return tuple(_support(segments[n - 1]) for n in real)


def _ruled_node(item: Mapping[str, Any], segments: Sequence[Segment], ruled: Mapping[str, str]) -> str | None:
    """Return the fact by the rule that says what this item says, if there is one."""
    named = (segments[n - 1].id for n in segments_named(item, 0, len(segments)))
    return next((ruled[name] for name in named if name in ruled), None)


def _support(segment: Segment) -> Support:
    anchor = segment.anchor
    return Support(anchor_text(anchor), anchor.task_id, segment.holder, milliseconds(anchor.at) if anchor.at else 0)


def _narrowest(tenant: str, users: Iterable[str | None]) -> Owner:
    """Return the owner of what rests on these users' statements. What two users said to themselves is refused."""
    named = {user for user in users if user is not None}
    if len(named) > 1:
        raise _RefusedError
    return Owner.of_holder(tenant, named.pop() if named else None)


def _share(number: Any) -> float:
    return float(min(1, max(0, number))) if isinstance(number, int | float) and number == number else 0.5


def _time(text: Any) -> int | None:
    try:
        return max(0, milliseconds(text)) if isinstance(text, str) else None
    except ValueError:
        return None
