"""What went wrong with a model call, as one of the three failures, in words that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

from pentad.shared.models.assembly import as_dict
from pentad.shared.models.ports import ModelCutOff, ModelFailed, ModelMisconfigured, ModelRefused, ModelUnavailable

_LATER = frozenset({408, 409, 429})
_MAX_TEXT = 500
_MISCONFIGURED = frozenset({401, 402, 403, 404, 405})
"""Statuses that say nothing of the request: another model may answer it."""
_ADVICE = {
    401: "check the API key",
    402: "the account has no credit left",
    403: "check the API key and what it may use",
    404: "check the model's id and the base URL",
    405: "check the base URL",
    413: "the conversation is too long for this model",
}

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of an error that comes within a stream and says its type alone."""


def from_status(status: int, detail: str, retry_after: float | None, place: str) -> ModelFailed:
    """The failure that an HTTP error status means. `detail` is the server's own text."""
    said = f"the model server at {place} answered {status}: {shortened(detail)}"
    if is_later(status):
        return ModelUnavailable(f"{said}; try again later", retry_after)
    kind = ModelMisconfigured if status in _MISCONFIGURED else ModelRefused
    return kind(f"{said}; {_ADVICE.get(status, 'change the request or the model')}")


def is_later(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _LATER or status >= 500


def from_stream_error(chunk: Mapping[str, Any], began: bool, place: str) -> ModelFailed | None:
    """The failure that an error object within a stream means, None when the chunk is not one.

    Without a status of its own, and once text has come, it is an answer cut off.
    """
    error = chunk.get("error") or (chunk if chunk.get("object") == "error" or chunk.get("type") == "error" else None)
    if not error or chunk.get("choices"):
        return None
    fields = as_dict(error)
    status = _status(fields)
    detail = str(fields.get("message") or error)
    if status is not None and (not is_later(status) or not began):
        return from_status(status, detail, None, place)
    return ModelCutOff(f"the model server at {place} stopped with an error: {shortened(detail)}; try again")


def _status(error: Mapping[str, Any]) -> int | None:
    for name in ("status", "status_code", "code"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value <= 599:
            return value
    kind = error.get("type")
    return _STATUS_OF_TYPE.get(kind) if isinstance(kind, str) else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a `Retry-After` header asks for (a number or a date), None when it does not say."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value)
    return seconds if 0 <= seconds < 1e6 else None


def _until(date: str) -> float:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time())
    except (ValueError, TypeError, OverflowError):
        return -1.0


def shortened(text: str) -> str:
    """At most 500 characters, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else line[: _MAX_TEXT - 1] + "…"
