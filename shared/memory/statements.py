"""What a person states outside of any task, kept like a task's record, so that its anchor opens it. Pure."""

import json
from hashlib import sha256

from pydantic import TypeAdapter, ValidationError

from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import ANY_SHARD, milliseconds, shard_in, task_id
from pentad.contracts.records import Task, TaskRecord
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import merged_edges, merged_nodes, node_id
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import segments_of

STATEMENT_LABEL = "memory"
"""Stands as session and instruction of a statement."""
_GOAL_CHARS = 500
_NODE, _EDGE, _TOLD_AT = "node", "edge", "told_at"
"""Names of the materials of a statement's record: what was added with it, and when last, in ms."""
_NODES: TypeAdapter[MemoryNode] = TypeAdapter(MemoryNode)
_EDGES: TypeAdapter[MemoryEdge] = TypeAdapter(MemoryEdge)
_IMPORTANCE = 0.5
"""Of a node whose record does not say it: what a person who gives no figure means."""
_NOTE = "note-"
"""Begins the name of a statement; tasks of conversations have digits and letters up to f."""


def statement_id(shard: int, owner: Owner, about: str, text: str) -> str:
    """A task's id: the same for the same statement, so that one that is made again is kept once.

    ``about``: the node or edge that it is for.
    """
    said = json.dumps([owner.tenant, owner.holder, about, text])
    return task_id(shard, f"{_NOTE}{sha256(said.encode()).hexdigest()[:20]}")


def is_statement(task: str) -> bool:
    """Whether a task's id is that of a statement; no task of a conversation has such a one."""
    return f"-{_NOTE}" in task


def statement(name: str, owner: Owner, text: str, at: str, kept_at: str | None = None) -> TaskRecord:
    """The record of a statement. ``at``: when it was made, in RFC 3339; ``kept_at``: when it was kept; None: then."""
    task = Task(
        task_id=name,
        session_id=STATEMENT_LABEL,
        user_id=owner.user,
        status="completed",
        goal=text[:_GOAL_CHARS],
        instruction=STATEMENT_LABEL,
        created_at=at,
        updated_at=kept_at or at,
        archived_at=kept_at or at,
        steps=0,
        usage=TaskUsage(input_tokens=0, output_tokens=0),
    )
    said = {"role": "user", "content": text, "at": at}
    message = said if owner.user is None else said | {"user_id": owner.user}
    return TaskRecord(tenant_id=owner.tenant, task=task, messages=[message], steps=[])


def supports_of(record: TaskRecord) -> tuple[Support, ...]:
    """What rests on all of a statement rests on these."""
    name, at = record.task.task_id, milliseconds(record.task.created_at)
    segments = segments_of(record.tenant_id, name, record.messages)
    return tuple(Support(anchor_text(segment.anchor), name, segment.holder, at) for segment in segments)


def episode_about(at: str) -> str:
    """What a statement is for that was said elsewhere, see `statement_id`. ``at``: when, in RFC 3339."""
    return f"episode {at}"


def with_node(record: TaskRecord, node: MemoryNode, at: int) -> TaskRecord:
    """A statement's record that says which node was added with it. ``at``: when, in ms.

    Of a node that is added again both count, as in the graph.
    """
    there = _kept_node(record)
    [whole] = merged_nodes([node] if there is None or there.owner != node.owner else [there, node])
    return _with(record, {_NODE: _NODES.dump_python(whole, mode="json"), _TOLD_AT: at})


def with_edge(record: TaskRecord, edge: MemoryEdge, at: int) -> TaskRecord:
    """The same for an edge."""
    there = stated_edge(record)
    whole = merged_edges([edge] if there is None else [there, edge])[0]
    return _with(record, {_EDGE: _EDGES.dump_python(whole, mode="json"), _TOLD_AT: at})


def stated_node(record: TaskRecord) -> MemoryNode | None:
    """The node that was added with a statement; None where it was for something else.

    Records of earlier versions do not say it: their ids tell the kind, and what else was told with the node is lost.
    """
    kept = _kept_node(record)
    if kept is not None or _EDGE in record.materials:
        return kept
    owner, text = Owner(record.tenant_id, record.task.user_id), _text(record)
    for kind in NodeKind:
        name = node_id(owner, kind, text)
        if _is_about(record, owner, name):
            supports = supports_of(record)
            return MemoryNode(name, owner, kind, text, _IMPORTANCE, supports[0].at, supports) if supports else None
    return None


def stated_edge(record: TaskRecord) -> MemoryEdge | None:
    """The edge that was added with a statement; None for other statements, and for those of earlier versions."""
    try:
        return _EDGES.validate_python(record.materials[_EDGE]) if _EDGE in record.materials else None
    except ValidationError:
        return None


def is_episode(record: TaskRecord) -> bool:
    """Whether a statement keeps what was said elsewhere: it is remembered as a task is."""
    return _is_about(record, Owner(record.tenant_id, record.task.user_id), episode_about(record.task.created_at))


def told_at(record: TaskRecord) -> int:
    """When what a statement is for was added last, in ms."""
    at = record.materials.get(_TOLD_AT)
    return at if isinstance(at, int) else milliseconds(record.task.created_at)


def _kept_node(record: TaskRecord) -> MemoryNode | None:
    try:
        return _NODES.validate_python(record.materials[_NODE]) if _NODE in record.materials else None
    except ValidationError:
        return None


def _with(record: TaskRecord, materials: dict[str, object]) -> TaskRecord:
    return record.model_copy(update={"materials": record.materials | materials})


def _is_about(record: TaskRecord, owner: Owner, about: str) -> bool:
    shard = shard_in(record.task.task_id, ANY_SHARD)
    return shard is not None and statement_id(shard, owner, about, _text(record)) == record.task.task_id


def _text(record: TaskRecord) -> str:
    return str(record.messages[0].get("content", "")) if record.messages else ""
