"""A node of the graph as a point of the store of vectors, so that searches find it. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, CutTask, points_of
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.segmenting import Segment
from pentad.shared.vectors.points import Point


def node_point(node: MemoryNode, session: str, vector: Sequence[float]) -> Point:
    """The point of a node that rests on a statement of ours. ``vector``: of its text; ``session``: of the statement.

    Its id is the node's, its anchor the newest statement's. Raises ``BadAnchorError`` for one that is none.
    """
    newest = max(node.supports, key=lambda support: (support.at, support.anchor))
    user = node.owner.user
    said = Segment(node.id, anchor_of(newest.anchor), node.text, user or "user", user)
    made = points_of(CutTask(node.owner.tenant, newest.task, session, [said]), [vector])
    [point] = [each for each in made if each.payload.kind == SEGMENT_KIND]
    payload = replace(
        point.payload, kind=NODE_KIND, type=node.kind.value, at=node.learned_at, importance=node.importance
    )
    return replace(point, payload=payload)
