"""Errors as RFC 9457 problem documents, the form of every refusal over HTTP."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pentad.contracts.errors import ErrorCode
from pentad.shared.errors import PentadError
from pentad.shared.service.problem_document import MEDIA_TYPE, problem_document

if TYPE_CHECKING:
    from starlette.responses import Response


class ProblemError(PentadError):
    """A refusal with its HTTP status. ``retry_after``: seconds, if a later try may succeed.

    ``in_doubt``: the request may have been carried out all the same; if it is sent again, it still happens once.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        code: ErrorCode | None = None,
        retry_after: float | None = None,
        in_doubt: bool = False,
    ):
        super().__init__(detail)
        self.status, self.detail, self.code, self.retry_after = status, detail, code, retry_after
        self.in_doubt = in_doubt
        self.message_id: str | None = None
        """Id of the message that was not accepted, or perhaps was. It may be sent again under this id."""

    @property
    def about(self) -> dict[str, Any]:
        """Fields that a client needs to send the request again."""
        named = {} if self.message_id is None else {"message_id": self.message_id}
        return named | ({"in_doubt": True} if self.in_doubt else {})

    def body(self) -> bytes:
        """Return the problem document."""
        code = {"code": self.code} if self.code else {}
        return problem_document(self.status, self.detail, **code, **self.about)

    def headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        headers = {"content-type": MEDIA_TYPE, "cache-control": "no-store"}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return headers

    def response(self) -> "Response":
        """Return the refusal as a Starlette response."""
        from starlette.responses import Response

        return Response(self.body(), self.status, self.headers())


def bad(detail: str) -> ProblemError:
    """Return a refusal of a request that cannot be read (400)."""
    return ProblemError(400, detail, ErrorCode.BAD_MESSAGE)


def invalid(detail: str) -> ProblemError:
    """Return a refusal of a request with wrong values (422)."""
    return ProblemError(422, detail, ErrorCode.BAD_MESSAGE)


def missing(detail: str, code: ErrorCode | None = None) -> ProblemError:
    """Return a refusal of a request for something that does not exist or belongs to another tenant (404)."""
    return ProblemError(404, detail, code)


def busy(detail: str, retry_after: float = 1.0, *, outage: bool = False) -> ProblemError:
    """Return a refusal of a request that may be sent again later: 429, or 503 in an outage."""
    return ProblemError(503 if outage else 429, detail, ErrorCode.BUSY, retry_after)


def doubtful(detail: str) -> ProblemError:
    """Return a refusal of a request that may have been carried out, because the store did not answer (503)."""
    return ProblemError(503, detail, ErrorCode.BUSY, 1.0, in_doubt=True)
