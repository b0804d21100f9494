"""Statements that people make outside of any task, stored like a task's record, so that anchors open them. Pure."""

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
"""Session and instruction of a statement's record."""
_GOAL_CHARS = 500
_NODE, _EDGE, _TOLD_AT = "node", "edge", "told_at"
"""Names of materials of a statement's record: what was added with it, and when last, in ms."""
_NODES: TypeAdapter[MemoryNode] = TypeAdapter(MemoryNode)
_EDGES: TypeAdapter[MemoryEdge] = TypeAdapter(MemoryEdge)
_IMPORTANCE = 0.5
"""Importance of a node whose record does not say it."""
_NOTE = "note-"
"""Prefix of a statement's name; names of other tasks have digits and letters up to f."""


def statement_id(shard: int, owner: Owner, about: str, text: str) -> str:
    """Return the task id of a statement: equal for equal statements, so that a repeated one is stored once.

    ``about``: the node or edge that it is for.
    """
    said = json.dumps([owner.tenant, owner.holder, about, text])
    return task_id(shard, f"{_NOTE}{sha256(said.encode()).hexdigest()[:20]}")


def is_statement(task: str) -> bool:
    """Whether a task id is that of a statement; no task of a conversation has such an id."""
    return f"-{_NOTE}" in task


def statement(name: str, owner: Owner, text: str, at: str, kept_at: str | None = None) -> TaskRecord:
    """Return the record of a statement made at ``at`` and stored at ``kept_at`` (RFC 3339); None: at the same time."""
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
    """Return the supports of what rests on all of a statement."""
    name, at = record.task.task_id, milliseconds(record.task.created_at)
    segments = segments_of(record.tenant_id, name, record.messages)
    return tuple(Support(anchor_text(segment.anchor), name, segment.holder, at) for segment in segments)


def episode_about(at: str) -> str:
    """Return what a statement is about that repeats something said elsewhere, at this time (RFC 3339).

    See `statement_id`.
    """
    return f"episode {at}"


def with_node(record: TaskRecord, node: MemoryNode, at: int) -> TaskRecord:
    """Return a statement's record with the node that was added with it at this time, in ms.

    A node that is added again is merged, as in the graph.
    """
    there = _kept_node(record)
    [whole] = merged_nodes([node] if there is None or there.owner != node.owner else [there, node])
    return _with(record, {_NODE: _NODES.dump_python(whole, mode="json"), _TOLD_AT: at})


def with_edge(record: TaskRecord, edge: MemoryEdge, at: int) -> TaskRecord:
    """Return a statement's record with the edge that was added with it at this time, in ms."""
    there = stated_edge(record)
    whole = merged_edges([edge] if there is None else [there, edge])[0]
    return _with(record, {_EDGE: _EDGES.dump_python(whole, mode="json"), _TOLD_AT: at})


def stated_node(record: TaskRecord) -> MemoryNode | None:
    """Return the node that was added with a statement; None where it was for something else.

    Records of earlier versions do not have it: their ids tell the kind, and other data of the node is lost.
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
    """Return the edge that was added with a statement; None for other statements, and for those of earlier versions."""
    try:
        return _EDGES.validate_python(record.materials[_EDGE]) if _EDGE in record.materials else None
    except ValidationError:
        return None


def is_episode(record: TaskRecord) -> bool:
    """Whether a statement repeats what was said elsewhere: it is remembered as a task is."""
    return _is_about(record, Owner(record.tenant_id, record.task.user_id), episode_about(record.task.created_at))


def told_at(record: TaskRecord) -> int:
    """Return when a statement's node or edge was added last, in ms."""
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
