"""Telling tasks to stop."""

from pentad.contracts.errors import ErrorCode
from pentad.services.gateway.persisting import persist
from pentad.services.gateway.problems import ProblemError, busy, doubtful, missing
from pentad.services.gateway.queries import Queries
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.headers import ENDED
from pentad.shared.errors import DamagedError, OutageError, RefusedWriteError
from pentad.shared.keys import TaskKeys

_LIVE = ("pending", "active", "waiting", "stale")


class Control:
    """Control mail from clients."""

    def __init__(self, actors: Actors, queries: Queries) -> None:
        self._actors, self._queries = actors, queries

    async def cancel(self, tenant: str, task: str, session: str | None = None) -> None:
        """Ask a task to stop; said again while it is asked already, it changes nothing.

        ``session``: only a task of this session. Raises ``ProblemError``: 404, 409 when it has ended, 503.
        """
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            raise _unknown(task)
        try:
            if session is not None and await self._queries.session_of(tenant, task) != session:
                raise _unknown(task)
            status = await self._ask(keys)
            if status == "none" and await self._queries.record(tenant, task) is None:
                raise _unknown(task)
        except DamagedError:  # it has a record, so it has ended
            status = "none"
        except OutageError:
            raise busy("Redis is unavailable, and the task was not asked to stop", outage=True) from None
        if status == "none" or status in ENDED:
            raise ProblemError(409, f"task {task} has ended", ErrorCode.NOT_ALLOWED)

    async def _ask(self, keys: TaskKeys) -> str:
        """Post the cancel, which is one however often it is posted; the task's status. Raises ``RefusedWriteError``."""
        try:
            return await persist(lambda: self._actors.post(keys, "cancel", b"{}", _LIVE, control="cancel"))
        except RefusedWriteError:
            raise
        except OutageError:
            raise doubtful(
                "Redis did not answer, so the task may have been asked to stop or not: ask again, it is asked once"
            ) from None


def _unknown(task: str) -> ProblemError:
    return missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
