"""What a person states outside of any task, kept like a task's record, so that its anchor opens it. Pure."""

import json
from hashlib import sha256

from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import milliseconds, task_id
from pentad.contracts.records import Task, TaskRecord
from pentad.shared.graph.knowledge import Support
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segmenting import segments_of

STATED = "memory"
"""Stands as session and instruction of a statement."""
_GOAL = 500
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
        session_id=STATED,
        user_id=owner.user,
        status="completed",
        goal=text[:_GOAL],
        instruction=STATED,
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
