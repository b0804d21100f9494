"""Ended tasks as the memory takes them. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from pentad.contracts.ids import milliseconds
from pentad.contracts.records import TaskRecord
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.transcript import EXCLUSION
from pentad.shared.immutable import immutable
from pentad.shared.segments.anchors import task_point_id
from pentad.shared.segments.passages import owned
from pentad.shared.segments.segment import segments_of

MOST_TEXTS = 64
"""Texts of one request to the embedding service: what a model on one core embeds within its time limit."""
_BLANK_MESSAGE = {"role": "system"}
Message = Mapping[str, Any]


@immutable
class EndedTask:
    """A task that has ended."""

    tenant: str
    task: str
    session: str
    messages: Sequence[Message]
    """The transcript as a record has it."""
    created: int
    """Time of its beginning in ms since the epoch; later than that of any erased task."""
    ended_at: int
    """Time of its end in ms since the epoch."""
    forgotten: frozenset[str] = frozenset()
    """Ids of its forgotten segments."""


def ended_task_of(
    header: TaskHeader, messages: Sequence[Message], forgotten: frozenset[str] = frozenset()
) -> EndedTask:
    """Return an ended task from its header and transcript in Redis."""
    said = owned(messages, header.user)
    return EndedTask(header.tenant, header.task_id, header.session, said, header.created, header.ended_at, forgotten)


def ended_task_of_record(record: TaskRecord, forgotten: frozenset[str] = frozenset()) -> EndedTask:
    """Return an ended task from its record."""
    task, messages = record.task, owned(record.messages, record.task.user_id or "")
    created, ended = milliseconds(task.created_at), milliseconds(task.updated_at)
    return EndedTask(record.tenant_id, task.task_id, task.session_id, messages, created, ended, forgotten)


Share = Literal["none", "part", "whole"]


def share_of(messages: Sequence[Message], beginner: str, user: str) -> Share:
    """Return how much of a task is this user's: the whole, where nobody else has spoken in it.

    ``beginner``: the user who began it.
    """
    said = [m for m in owned(messages, beginner) if m.get("role") == "user" and not m.get("origin")]
    speakers = {message.get("user_id") or "" for message in said}
    if speakers == {user} or (not speakers and beginner == user):
        return "whole"
    return "part" if user in speakers else "none"


def gone_points(said: EndedTask, there: Collection[str]) -> list[str]:
    """Return ids of points from before messages were moved away or segments forgotten. ``there``: those it has now."""
    if not said.forgotten and not any(message.get("role") == EXCLUSION for message in said.messages):
        return []
    whole = [_BLANK_MESSAGE if message.get("role") == EXCLUSION else message for message in said.messages]
    segments = segments_of(said.tenant, said.task, whole)
    before = {segment.id for segment in segments}
    before |= {task_point_id(said.tenant, said.task, holder) for holder in {segment.holder for segment in segments}}
    return sorted(before.difference(there))


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield texts in batches for embedding."""
    for begin in range(0, len(texts), MOST_TEXTS):
        yield texts[begin : begin + MOST_TEXTS]
