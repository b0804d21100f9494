"""Telling tasks to stop."""

from contracts.errors import ErrorCode
from services.gateway.problems import ProblemError, busy, missing
from shared.errors import DamagedError, OutageError
from shared.state.actors import Actors
from shared.state.headers import ENDED
from shared.state.queries import Queries

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
            status = await self._actors.post(keys, "cancel", b"{}", _LIVE, control="cancel")
            if status == "none" and await self._queries.record(tenant, task) is None:
                raise _unknown(task)
        except DamagedError:  # it has a record, so it has ended
            status = "none"
        except OutageError:
            raise busy("the store does not serve now: nothing was changed", outage=True) from None
        if status == "none" or status in ENDED:
            raise ProblemError(409, f"task {task} has ended", ErrorCode.NOT_ALLOWED)


def _unknown(task: str) -> ProblemError:
    return missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
