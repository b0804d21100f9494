"""Reads of a session's tasks and last turns, which decisions need."""

import logging
from collections.abc import Sequence

from pydantic import ValidationError

from pentad.contracts.ids import ANY_SHARD, shard_in
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.mail import SessionMessage
from pentad.shared.errors import DamagedError
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)
CONTEXT_TURNS = 12
"""Turns that a new task begins with."""
_CONTEXT_CHARS = 4_000
_ELSEWHERE = "[Another task has been given this.]"
"""Follows a message without an answer: a model that read it alone would do it a second time."""


async def load_task(store: Store, keys: TaskKeys) -> TaskHeader | None:
    """A task's header, or None. Raises ``DamagedError``."""
    return task_header(keys.tenant, keys.task, pairs(await store.call("HGETALL", keys.header)))


async def load_tasks(store: Store, shard: int, tenant: str, ids: Sequence[str]) -> list[TaskHeader | None]:
    """Headers of several tasks of one shard in one round trip; None for '', and for what is not there or unreadable.

    One task that nobody can work with must not stop what is said beside it.
    """
    ours = [task for task in ids if task and shard_in(task, ANY_SHARD) == shard]
    if not ours:
        return [None] * len(ids)
    replies = await store.calls([("HGETALL", TaskKeys(shard, tenant, task).header) for task in ours])
    found = {task: _readable(tenant, task, reply) for task, reply in zip(ours, replies, strict=True)}
    return [found.get(task) for task in ids]


def _readable(tenant: str, task: str, reply: Sequence[bytes]) -> TaskHeader | None:
    try:
        return task_header(tenant, task, pairs(reply))
    except DamagedError as error:
        log.warning("%s: it is left out", error)
        return None


async def last_turns(store: Store, keys: SessionKeys, count: int) -> list[SessionMessage]:
    """The session's last turns, oldest first. One that cannot be read is left out."""
    found = await store.call("LRANGE", keys.turns, -count, -1)
    return [turn for raw in found if (turn := _turn(keys, raw)) is not None]


def _turn(keys: SessionKeys, raw: bytes) -> SessionMessage | None:
    try:
        return SessionMessage.model_validate_json(raw)
    except ValidationError:
        log.warning("a turn of %s cannot be read: it is left out", keys.actor)
        return None


def as_context(turns: Sequence[SessionMessage]) -> list[SessionMessage]:
    """Return the turns that a new task begins with: the last of these, each cut short."""
    return [turn.model_copy(update={"content": turn.content[:_CONTEXT_CHARS]}) for turn in turns[-CONTEXT_TURNS:]]


def as_session_context(turns: Sequence[SessionMessage]) -> list[SessionMessage]:
    """Return the turns that a new task of a session begins with; messages that others have not answered are marked."""
    context, answered = list[SessionMessage](), set[str]()
    for turn in reversed(as_context(turns)):
        if turn.role == "assistant":
            answered.add(turn.task_id)
        elif turn.task_id not in answered:
            context.append(SessionMessage(role="assistant", content=_ELSEWHERE, task_id=turn.task_id, at=turn.at))
        context.append(turn)
    return context[::-1]
