"""The rules by which a person may move a message from one task to another. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from pentad.contracts.ids import is_external_id, is_identifier
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import NEW_TASK
from pentad.shared.actors.transcript import EXCLUSION
from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable


class UnmovableError(PentadError):
    """The message cannot be moved as requested; the text says why, and what to do instead."""


@immutable
class MoveRequest:
    """A person's request to move a message."""

    message_id: str
    to: str
    """Id of the task that gets the message, or `NEW_TASK`."""


@immutable
class Whereabouts:
    """The place of a message in a task."""

    number: int = 0
    """Number of the message in the task's mail; 0: it is in the transcript."""
    moved_to: tuple[str, ...] = ()
    """Target that the person chose and the task that got the message; empty if it was not moved away."""


@immutable
class Destination:
    """The task that is to get the message."""

    header: TaskHeader | None = None
    """Header of the task; None if the task is not in Redis."""
    archived: bool = False
    """Whether the task has a record."""


def read_move(body: Mapping[str, Any]) -> MoveRequest:
    """Read a client's request to move a message. Raises ``UnreadableError``."""
    message_id, to = body.get("message_id"), body.get("to")
    if not isinstance(message_id, str) or not is_external_id(message_id):
        raise UnreadableError("message_id: a message's id is expected")
    if not isinstance(to, str) or not is_identifier(to):
        raise UnreadableError(f"to: a task's id, or {NEW_TASK!r}, is expected")
    return MoveRequest(message_id, to)


def check_destination(source: TaskHeader, to: str, found: Destination) -> None:
    """Raise ``UnmovableError`` if the destination cannot take a message of the source."""
    header = found.header
    if to == source.task_id:
        raise UnmovableError("the message is in this task already")
    if header is None:
        state = "is archived: name a task that is not, or `new`" if found.archived else "is unknown"
        raise UnmovableError(f"task {to} {state}")
    if header.session != source.session:
        raise UnmovableError(f"task {to} belongs to another session: a message stays in its own")
    if header.status == "cancelled":
        raise UnmovableError(f"task {to} was cancelled: name another, or `new`")


def is_repeat(request: MoveRequest, source: str, found: Whereabouts) -> bool:
    """Return whether this move was carried out before. Raises ``UnmovableError`` if another one was."""
    if not found.moved_to:
        return False
    if request.to not in found.moved_to:
        now = found.moved_to[-1]
        raise UnmovableError(f"message {request.message_id} is in task {source} no more: move it from task {now}")
    return True


def in_transcript(newest_first: Iterable[Mapping[str, Any]], message_id: str) -> Whereabouts | None:
    """Return the place of a message by a transcript; None if it is not there. The newest entry counts."""
    for line in newest_first:
        if line.get("message_id") != message_id or line.get("origin") or line.get("forked"):
            continue
        if line.get("role") == EXCLUSION:
            return Whereabouts(moved_to=(str(line.get("to")), str(line.get("to_task_id"))))
        if line.get("role") == "user":
            return Whereabouts()
    return None
