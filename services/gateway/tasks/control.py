"""Requests to cancel, pause, resume, complete and archive tasks."""

from collections.abc import Mapping

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import TaskStatus
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful, missing
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.headers import ENDED, LIVE
from pentad.shared.errors import DamagedError, OutageError, RefusedWriteError
from pentad.shared.keys import TaskKeys
from pentad.shared.kinds import COMPLETE, ControlKind

_VERBS: Mapping[ControlKind, str] = {"cancel": "stop", "pause": "pause", "resume": "go on", "complete": "end"}
_WAITS: tuple[TaskStatus, ...] = ("waiting", "stale")


class Control:
    """Passes the control requests of clients to tasks."""

    def __init__(self, actors: Actors, queries: Queries) -> None:
        self._actors, self._queries = actors, queries

    async def ask(self, what: ControlKind, tenant: str, task: str, session: str | None = None) -> None:
        """Ask a task to cancel, pause, resume or complete; a repeated request changes nothing.

        ``session``: the session that the task must belong to. Raises ``ProblemError``: 404, 409 if the task has ended,
        or does not wait and is to complete, 503.
        """
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            raise _unknown(task)
        try:
            if not await self._queries.is_visible(tenant, task, session):
                raise _unknown(task)
            status = await self._post(what, keys)
            if status == "none" and await self._queries.record(tenant, task) is None:
                raise _unknown(task)
        except DamagedError:  # it has a record, so it has ended
            status = "none"
        except OutageError:
            raise _unasked(_VERBS[what]) from None
        if status == "none" or status in ENDED:
            raise ProblemError(409, f"task {task} has ended", ErrorCode.NOT_ALLOWED)
        if what == COMPLETE and status not in _WAITS:
            raise ProblemError(
                409, f"task {task} does not wait for a person: let it end, or cancel it", ErrorCode.NOT_ALLOWED
            )

    async def archive(self, tenant: str, task: str) -> None:
        """Archive a task that has ended, without its grace time; an archived task stays as it is.

        Raises ``ProblemError``: 404, 409 if the task has not ended, 503.
        """
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            raise _unknown(task)
        try:
            status = await persist(lambda: self._actors.archive_now(keys))
            if status == "none" and await self._queries.record(tenant, task) is None:
                raise _unknown(task)
        except DamagedError:
            return
        except OutageError:
            raise _unasked("leave") from None
        if status in LIVE:
            raise ProblemError(409, f"task {task} has not ended: cancel it first", ErrorCode.NOT_ALLOWED)

    async def _post(self, what: ControlKind, keys: TaskKeys) -> str:
        """Post the request, which is safe to repeat; return the task's status. Raises ``RefusedWriteError``."""
        try:
            if what == COMPLETE:  # nothing is under way that it could interrupt
                return await persist(lambda: self._actors.post(keys, what, b"{}", _WAITS))
            return await persist(lambda: self._actors.post(keys, what, b"{}", LIVE, control=what))
        except RefusedWriteError:
            raise
        except OutageError:
            verb = _VERBS[what]
            raise doubtful(
                f"Redis did not answer, so the task may have been asked to {verb} or not: ask again, it is asked once"
            ) from None


def _unasked(verb: str) -> ProblemError:
    return busy(f"Redis is unavailable, and the task was not asked to {verb}", outage=True)


def _unknown(task: str) -> ProblemError:
    return missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
