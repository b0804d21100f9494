"""A node of the graph as a point of the store of vectors, so that searches find it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.memory.node_metadata import metadata_detail
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, CutTask, points_of
from pentad.shared.memory.true_times import TrueTimes, details_of
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.segment import Segment
from pentad.shared.vectors.points import KeptPoint, Point


def node_point(node: MemoryNode, session: str, vector: Sequence[float], times: TrueTimes) -> Point:
    """The point of a node that rests on a statement of ours. ``vector``: of its text; ``session``: of the statement.

    Its id is the node's, its anchor the newest statement's. Raises ``BadAnchorError`` for one that is none.
    """
    newest = max(node.supports, key=lambda support: (support.at, support.anchor))
    point = _point(node.id, node.owner, newest.task, session, newest.anchor, node.text, vector)
    payload = replace(
        point.payload,
        kind=NODE_KIND,
        type=node.kind.value,
        at=node.learned_at,
        importance=node.importance,
        details=point.payload.details | details_of(node, times) | metadata_detail(node),
    )
    return replace(point, payload=payload)


def node_point_anew(kept: KeptPoint, vector: Sequence[float]) -> Point:
    """The point of a node for another model. ``kept``: what another model's point keeps of it."""
    said = kept.payload
    return replace(_point(kept.id, said.owner, said.task, said.session, said.anchor, said.text, vector), payload=said)


def _point(name: str, owner: Owner, task: str, session: str, anchor: str, text: str, vector: Sequence[float]) -> Point:
    said = Segment(name, anchor_of(anchor), text, owner.user or "user", owner.holder)
    made = points_of(CutTask(owner.tenant, task, session, [said]), [vector])
    [point] = [each for each in made if each.payload.kind == SEGMENT_KIND]
    return point
