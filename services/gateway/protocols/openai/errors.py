"""Refusals in the form of OpenAI's errors."""

import re
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.edge.schemas import NULLABLE_TEXT, TEXT, object_of

if TYPE_CHECKING:
    from starlette.responses import Response

_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_TYPES |= {409: "conflict_error", 413: "invalid_request_error", 415: "invalid_request_error", 429: "rate_limit_error"}
OPENAI_REFUSAL = (
    object_of(error=object_of(message=TEXT, type=TEXT, param=NULLABLE_TEXT, code=NULLABLE_TEXT)),
    "application/json",
)
"""Schema and media type of a refusal, for the OpenAPI document."""
_INVALID = 422
"""Our status of wrong values, for which OpenAI's is 400."""
_PLACE = re.compile(r"([a-z_]{1,40}(?:\.[a-z0-9_]{1,40}){0,5}): ")


def error_body(message: str, status: int, code: str | None = None) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    place = _PLACE.match(message)
    param = None if place is None else place[1]
    if status == 404 and param == "model":
        code = "model_not_found"
    return {
        "error": {"message": message, "type": _TYPES.get(status, "server_error"), "param": param, "code": code},
    }


def openai_refusal(problem: ProblemError) -> "Response":
    """Return a refusal as OpenAI's clients read it. They send again only what may succeed then."""
    from starlette.responses import Response

    status = 400 if problem.status == _INVALID else problem.status
    code = None if problem.code is None else str(problem.code)
    if status == 401:
        code = "invalid_api_key"
    headers = problem.headers() | {"content-type": "application/json"}
    if problem.retry_after is None:
        headers["x-should-retry"] = "false"
    return Response(to_json(error_body(problem.detail, status, code)), status, headers)
