"""A request of A2A beside what the SDK knows of it: who asks, what it reads from, and why it was refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotFoundError,
)

from pentad.contracts.tokens import Right
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.tasks.turn_stream import TurnStream
from pentad.shared.errors import DamagedError, OutageError

CALL_FIELD = "pentad_call"
"""Name under which the SDK's context of a call holds ours."""


@dataclass
class A2aCall:
    """A request of A2A. ``address``: that of the gateway, as the client reaches it."""

    caller: Caller
    address: str
    problem: ProblemError | None = None
    """Refusal that was told as an error of A2A: its status is that of the response where it concerns HTTP."""
    stream: TurnStream | None = None
    """Events that are followed for this request."""

    def scope(self, *rights: Right) -> tuple[str, str | None]:
        """Return the tenant, and the only session that the caller may see; None: all of the tenant.

        Raises ``ProblemError`` (403) for the admin key, and for a token without one of these rights.
        """
        for right in rights:
            self.caller.check(right)
        if self.caller.tenant is None:
            raise ProblemError(403, "this belongs to a tenant: use one of its API keys, not the admin key")
        return self.caller.tenant, self.caller.session

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn every refusal within the block into an error of A2A."""
        try:
            yield
        except ProblemError as problem:
            self.problem = problem
            raise error_of(problem) from None
        except UnreadableError as error:
            self.problem = invalid(str(error))
            raise InvalidParamsError(str(error)) from None
        except OutageError as error:
            self.problem = busy(f"a store is unavailable: {error}", outage=True)
            raise InternalError(self.problem.detail) from None
        except DamagedError as error:
            self.problem = ProblemError(410, f"{error}: an operator must look at what is kept")
            raise InternalError(self.problem.detail) from None


def error_of(problem: ProblemError) -> A2AError:
    """Return a refusal as A2A has it."""
    if problem.status == 404:
        return TaskNotFoundError(problem.detail)
    if problem.status in (401, 403, 413, 415):
        return InvalidRequestError(problem.detail)
    if problem.status in (400, 409, 412, 416, 422):
        return InvalidParamsError(problem.detail)
    again = {} if problem.retry_after is None else {"retryAfter": f"{problem.retry_after:g}"}
    return InternalError(problem.detail, again | ({"inDoubt": "true"} if problem.in_doubt else {}))


def no_task(task: str) -> ProblemError:
    """Return the refusal for a task that is not there or belongs to others."""
    return missing(f"there is no task {task[:128]!r}")
