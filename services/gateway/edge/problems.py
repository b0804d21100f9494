"""Errors as RFC 9457 problem documents. Every refusal over HTTP is one of these."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pentad.contracts.errors import ErrorCode
from pentad.shared.errors import PentadError
from pentad.shared.service.problem_document import MEDIA_TYPE, problem_document

if TYPE_CHECKING:
    from starlette.responses import Response


class ProblemError(PentadError):
    """A refusal with its HTTP status. ``retry_after``: seconds, when trying again may help.

    ``in_doubt``: what was asked for may have been carried out all the same; asked again, it still happens once.
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
        """The message that was not accepted, or of which that is not known. It may be sent again under this id."""

    @property
    def about(self) -> dict[str, Any]:
        """What a client needs to ask again."""
        named = {} if self.message_id is None else {"message_id": self.message_id}
        return named | ({"in_doubt": True} if self.in_doubt else {})

    def body(self) -> bytes:
        """The problem document."""
        code = {"code": self.code} if self.code else {}
        return problem_document(self.status, self.detail, **code, **self.about)

    def headers(self) -> dict[str, str]:
        """The response's headers."""
        headers = {"content-type": MEDIA_TYPE, "cache-control": "no-store"}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, round(self.retry_after)))
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return headers

    def response(self) -> "Response":
        """As a Starlette response."""
        from starlette.responses import Response

        return Response(self.body(), self.status, self.headers())


def bad(detail: str) -> ProblemError:
    """The request cannot be understood."""
    return ProblemError(400, detail, ErrorCode.BAD_MESSAGE)


def invalid(detail: str) -> ProblemError:
    """The request is understood and its values are wrong."""
    return ProblemError(422, detail, ErrorCode.BAD_MESSAGE)


def missing(detail: str, code: ErrorCode | None = None) -> ProblemError:
    """There is no such thing, or it is another tenant's."""
    return ProblemError(404, detail, code)


def busy(detail: str, retry_after: float = 1.0, *, outage: bool = False) -> ProblemError:
    """Not now: come back later."""
    return ProblemError(503 if outage else 429, detail, ErrorCode.BUSY, retry_after)


def doubtful(detail: str) -> ProblemError:
    """The store has not answered: what was asked for may have been carried out."""
    return ProblemError(503, detail, ErrorCode.BUSY, 1.0, in_doubt=True)
