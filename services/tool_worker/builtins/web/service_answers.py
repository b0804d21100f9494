"""Answers of services of the web in JSON: what failed is told with what to do, and a wrong form as that."""

from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pentad.shared.clipping import plain
from pentad.shared.outbound.address_guard import OutboundError
from pentad.shared.outbound.outside_client import OutsideAnswer

_MAX_REASON_CHARS = 300
_REASON_KEYS = ("detail", "error", "reason", "message")
_ADVICE = {
    HTTPStatus.UNAUTHORIZED: "its key is missing or wrong: an operator sets it",
    HTTPStatus.FORBIDDEN: "its key may not do this: an operator sets it",
    HTTPStatus.TOO_MANY_REQUESTS: "it was asked too often: try again later",
    432: "the limit of its plan is reached: an operator can raise it",
    433: "the limit of its plan is reached: an operator can raise it",
}


class ServiceAnswer(BaseModel):
    """The part of a service's answer that is used; the rest may be anything."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


T = TypeVar("T", bound=ServiceAnswer)


def read_answer(service: str, form: type[T], answer: OutsideAnswer) -> T:
    """Return an answer in its form. Raises ``OutboundError``, which names the service and what to do."""
    if not 200 <= answer.status < 300:
        raise OutboundError(f"{service} answered {answer.status}: {_advice(answer.status)}{_reason(answer.body)}")
    try:
        return form.model_validate_json(answer.body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        wrong = plain(f"{where}: {first['msg']}" if where else first["msg"], _MAX_REASON_CHARS)
        raise OutboundError(f"{service} did not answer in its form ({wrong}): its address may be wrong") from None


def _advice(status: int) -> str:
    if status in _ADVICE:
        return _ADVICE[status]
    if status >= 500:
        return "it has a fault: try again later"
    if 300 <= status < 400:
        return "it sends requests on to another address: an operator sets that one"
    return "it does not take this request"


class _Fault(ServiceAnswer):
    detail: Any = None
    error: Any = None
    reason: Any = None
    message: Any = None


def _reason(body: bytes) -> str:
    """Return what a service says of a failure, '' where it says nothing that can be read."""
    try:
        said: Any = _Fault.model_validate_json(body)
    except ValidationError:
        return ""
    for _ in range(2):  # Tavily has {"detail": {"error": "..."}}, Open-Meteo {"error": true, "reason": "..."}
        parts = said.model_dump() if isinstance(said, _Fault) else said
        if not isinstance(parts, dict):
            break
        said = next((parts[key] for key in _REASON_KEYS if isinstance(parts.get(key), str | dict)), None)
    return f" ({plain(said, _MAX_REASON_CHARS)})" if isinstance(said, str) and said.strip() else ""
