"""What was said in a task, as the memory takes it. Pure."""

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
"""Texts of one request to the embedding service: what a model on one core does within its time limit."""
_BLANK = {"role": "system"}
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
    """In ms since the epoch; later than whatever was erased before."""
    ended_at: int
    """In ms since the epoch."""
    forgotten: frozenset[str] = frozenset()
    """Ids of segments that are not to be found any more."""


def said_in_task(header: TaskHeader, messages: Sequence[Message], forgotten: frozenset[str] = frozenset()) -> EndedTask:
    """Of a task in Redis."""
    said = owned(messages, header.user)
    return EndedTask(header.tenant, header.task_id, header.session, said, header.created, header.ended_at, forgotten)


def said_in_record(record: TaskRecord, forgotten: frozenset[str] = frozenset()) -> EndedTask:
    """Of an archived one."""
    task, messages = record.task, owned(record.messages, record.task.user_id or "")
    created, ended = milliseconds(task.created_at), milliseconds(task.updated_at)
    return EndedTask(record.tenant_id, task.task_id, task.session_id, messages, created, ended, forgotten)


Share = Literal["none", "part", "whole"]


def share_of(messages: Sequence[Message], beginner: str, user: str) -> Share:
    """How much of a task is this user's: the whole, where nobody else has spoken in it. ``beginner``: who began it."""
    said = [m for m in owned(messages, beginner) if m.get("role") == "user" and not m.get("origin")]
    speakers = {message.get("user_id") or "" for message in said}
    if speakers == {user} or (not speakers and beginner == user):
        return "whole"
    return "part" if user in speakers else "none"


def gone_points(said: EndedTask, there: Collection[str]) -> list[str]:
    """Ids of what the task had before messages were moved away or segments forgotten. ``there``: of what it has now."""
    if not said.forgotten and not any(message.get("role") == EXCLUSION for message in said.messages):
        return []
    whole = [_BLANK if message.get("role") == EXCLUSION else message for message in said.messages]
    segments = segments_of(said.tenant, said.task, whole)
    before = {segment.id for segment in segments}
    before |= {task_point_id(said.tenant, said.task, holder) for holder in {segment.holder for segment in segments}}
    return sorted(before.difference(there))


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts as they are embedded, some at once."""
    for begin in range(0, len(texts), MOST_TEXTS):
        yield texts[begin : begin + MOST_TEXTS]
