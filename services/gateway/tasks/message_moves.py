"""Moves of messages to other tasks: a person's request is checked, and becomes mail for the task with the message.

The task's runner carries it out in one commit. Until then nothing has happened, and a repeated request is the same.
"""

from collections.abc import AsyncIterator
from typing import Any

from pentad.contracts.errors import ErrorCode
from pentad.contracts.streams import TASK_WAKE
from pentad.services.gateway.domain.move import (
    Destination,
    MoveRequest,
    UnmovableError,
    Whereabouts,
    check_destination,
    in_transcript,
    is_repeat,
)
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful, missing
from pentad.services.gateway.tasks.eval_cases import EvalCases
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.headers import TaskHeader, mail_of
from pentad.shared.actors.mail import NEW_TASK, MoveMail, UserMail
from pentad.shared.actors.sessions import load_task
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.kinds import MOVE
from pentad.shared.store.store import Store

_PIECE = 256
"""Pieces of mail that are read at a time in search of a message."""
_MAX_WAITING_MOVES = 64
"""Moves that may wait for one task."""


class MessageMoves:
    """Asks tasks to move messages away. Raises ``ProblemError``, and ``DamagedError`` for unreadable data.

    ``cases``: writer of evaluation cases; None: no cases are written.
    """

    def __init__(self, store: Store, queries: Queries, cases: EvalCases | None = None) -> None:
        self._store, self._queries, self._cases = store, queries, cases

    async def move(self, tenant: str, task: str, request: MoveRequest, session: str | None = None) -> None:
        """Ask a task to move a message; a repeated request, or one that is done already, changes nothing.

        ``session``: the session that both tasks must belong to; those of others are as unknown as none at all. Raises
        ``ProblemError``: 404, 409, 429, 503.
        """
        try:
            keys, source = await self._source(tenant, task, session)
            found = await self._whereabouts(keys, source, request.message_id)
            if is_repeat(request, task, found):
                return
            if request.to != NEW_TASK:
                check_destination(source, request.to, await self._destination(tenant, request.to, session))
        except UnmovableError as error:
            raise ProblemError(409, str(error), ErrorCode.NOT_ALLOWED) from None
        except OutageError:
            raise busy("Redis is unavailable, and nothing was moved", outage=True) from None
        if self._cases is not None:
            session_keys = SessionKeys(keys.shard, keys.tenant, source.session)
            await self._cases.keep(session_keys, task, request.message_id, request.to)
        await self._ask(keys, MoveMail(message_id=request.message_id, to=request.to, number=found.number))

    async def task_with(self, keys: SessionKeys, message_id: str) -> str:
        """Return the task of a session that has this message, by the session's last turns. Raises ``ProblemError``."""
        try:
            task = await self._last_with(keys, message_id)
        except OutageError:
            raise busy("Redis is unavailable, and nothing was moved", outage=True) from None
        if task is None:
            why = f"message {message_id} is none of the session's last ones: name its task, over REST"
            raise missing(why, ErrorCode.BAD_MESSAGE)
        return task

    async def _last_with(self, keys: SessionKeys, message_id: str) -> str | None:
        turns = await self._queries.messages(keys)
        return next((str(t.get("task_id")) for t in reversed(turns) if t.get("message_id") == message_id), None)

    async def _source(self, tenant: str, task: str, session: str | None) -> tuple[TaskKeys, TaskHeader]:
        keys = self._queries.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        if keys is not None and header is not None and session in (None, header.session):
            _check_instruction(header)
            return keys, header
        record = await self._queries.record(tenant, task) if header is None else None
        if record is not None and session in (None, record.task.session_id):
            raise UnmovableError(f"task {task} is archived: its messages stay")
        raise missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)

    async def _destination(self, tenant: str, task: str, session: str | None) -> Destination:
        keys = self._queries.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        record = await self._queries.record(tenant, task) if header is None else None
        own = header.session if header is not None else record.task.session_id if record is not None else None
        if own is None or session not in (None, own):
            raise missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
        if header is not None:
            _check_instruction(header)
        return Destination(header, archived=record is not None)

    async def _whereabouts(self, keys: TaskKeys, source: TaskHeader, message_id: str) -> Whereabouts:
        """Return the place of a message in a task: mail first, then the transcript, the order in which it travels."""
        async for number, mail in self._mail(keys, message_id):
            if UserMail.model_validate_json(mail).message.message_id == message_id:
                return Whereabouts(number)
        lines = [line async for line in self._queries.naming(keys, message_id)]
        found = in_transcript(lines, message_id)
        if found is not None and not found.moved_to:
            # A task may begin with messages of other tasks; older versions did not mark them.
            session = SessionKeys(keys.shard, keys.tenant, source.session)
            found = found if await self._last_with(session, message_id) in (None, keys.task) else None
        if found is None:
            raise missing(f"task {keys.task} has no message {message_id!r}", ErrorCode.BAD_MESSAGE)
        return found

    async def _mail(self, keys: TaskKeys, message_id: str) -> AsyncIterator[tuple[int, bytes]]:
        """Return the messages in the task's mailbox that contain this id, with their numbers."""
        last, name = 0, message_id.encode()
        while True:
            piece = await self._store.call("ZRANGEBYSCORE", keys.messages, f"({last}", "+inf", "LIMIT", 0, _PIECE)
            for mail in mail_of([raw for raw in piece if name in raw]):
                yield mail.number, mail.body
            if len(piece) < _PIECE:
                return
            last = mail_of(piece[-1:])[0].number

    async def _ask(self, keys: TaskKeys, mail: MoveMail) -> None:
        args: list[Any] = [keys.actor, mail.to_json(), _MAX_WAITING_MOVES]
        names = [keys.header, keys.signals, keys.wake]
        try:
            status, posted, woken = await persist(lambda: self._store.run("move", names, args))
        except RefusedWriteError:
            raise
        except OutageError:
            raise doubtful("Redis did not answer: ask again, it is moved once") from None
        if status == b"busy":
            raise busy(f"task {keys.task} is asked for {_MAX_WAITING_MOVES} messages already")
        if status == b"none":
            raise ProblemError(409, f"task {keys.task} has just been archived", ErrorCode.NOT_ALLOWED)
        metrics.published.labels(TASK_WAKE.name, MOVE).inc(posted)
        count_wake_ups(TASK_WAKE, woken)


def _check_instruction(task: TaskHeader) -> None:
    """Raise ``UnmovableError`` for a task whose nodes have worked with its messages: they cannot be taken apart."""
    if task.graph:
        raise UnmovableError(f"task {task.task_id} runs a graph: its messages stay, and it takes none of others")
