"""What went wrong with a model call, as one of the three failures, in words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from types import MappingProxyType
from typing import Any

from pentad.shared.models.loose_values import as_dict
from pentad.shared.models.ports import (
    KeyRefused,
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
)

_LATER = frozenset({408, 409, 429})
_MAX_TEXT = 500
_NOT_KNOWN = 401
_NOT_OFFERED = 501
_MISCONFIGURED = frozenset({401, 402, 403, 404, 405, _NOT_OFFERED})
"""Statuses that say nothing of the request: another model may answer it."""
_ADVICE = {
    401: "check the API key",
    402: "the account has no credit left",
    403: "check the API key and what it may use",
    404: "check the model's id and the base URL",
    405: "check the base URL",
    413: "the conversation, or the text, is too long for this model",
    501: "start the server so that it offers this, or correct the base URL",
}

_STATUS_OF_NAME = {
    "BadRequestError": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of an error that comes within a stream and says its type or code alone."""
_NO_CREDIT = frozenset(
    {
        "arrearage",
        "billing_hard_limit_reached",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_quota",
    }
)
"""Types and codes, in lower case, of what is sent as "too many requests" and does not pass by waiting."""
_TOO_LONG = re.compile(
    r"maximum context length|context[ _](?:length|size|window)|(?:prompt|input) is too long|request too large"
    r"|too large to process",
    re.I,
)
"""What servers say of a conversation or a text that is too long, with statuses of all kinds."""
_FULL = "Context size has been exceeded."
"""What llama.cpp says to all that it answers just then when they do not fit into the context that its slots share.

One that is too long by itself is refused before, or ends for its length: each of these fits alone.
"""
_OF_FULL = "; its slots share one context: give it more (-c), fewer slots (-np), or this model a `concurrency`"
_REFUSED, _PAYMENT, _TOO_LARGE = 400, 402, 413


def from_status(
    status: int, detail: str, retry_after: float | None, place: str, error: Mapping[str, Any] = MappingProxyType({})
) -> ModelFailed:
    """The failure that an HTTP error status means. `detail` is the server's own text, `error` its error object."""
    said = f"the model server at {place} answered {status}: {shortened(detail)}"
    status = _meant(status, detail, error) or status
    if is_later(status):
        return ModelUnavailable(f"{said}{_cause(detail)}; try again later", retry_after, status=status)
    if status == _REFUSED and _says_too_long(detail, error):
        status = _TOO_LARGE
    kind = ModelMisconfigured if status in _MISCONFIGURED else ModelRefused
    kind = {_NOT_KNOWN: KeyRefused, _TOO_LARGE: ModelTooLong}.get(status, kind)
    return kind(f"{said}; {_ADVICE.get(status, 'change the request or the model')}")


def is_later(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _LATER or (status >= 500 and status != _NOT_OFFERED)


def from_stream_error(chunk: Mapping[str, Any], began: bool, place: str) -> ModelFailed | None:
    """The failure that an error object within a stream means, None when the chunk is not one.

    Without a status of its own, and once text has come, it is an answer cut off.
    """
    error = chunk.get("error") or (chunk if chunk.get("object") == "error" or chunk.get("type") == "error" else None)
    if not error:
        return None
    fields = as_dict(error)
    detail = str(fields.get("message") or error)
    status = _meant(_status(fields), detail, fields)
    if status is not None and (not is_later(status) or not began):
        return from_status(status, detail, None, place)
    return ModelCutOff(
        f"the model server at {place} stopped with an error: {shortened(detail)}{_cause(detail)}; try again"
    )


def error_in(said: object) -> Mapping[str, Any]:
    """The error object of a body that was read as JSON, empty when there is none. Some servers send it in a list."""
    if isinstance(said, list):
        said = next(iter(said), None)
    fields = as_dict(said)
    inner = fields.get("error", fields)
    return inner if isinstance(inner, dict) else {"message": inner}


def _meant(status: int | None, detail: str, error: Mapping[str, Any]) -> int | None:
    """The status that says what to do, where the server's own would have the same asked again in vain."""
    if status is not None and not is_later(status):
        return status
    if any(str(error.get(name)).lower() in _NO_CREDIT for name in ("code", "type")):
        return _PAYMENT
    if detail == _FULL:
        return status
    return _TOO_LARGE if _says_too_long(detail, error) else status


def _says_too_long(detail: str, error: Mapping[str, Any]) -> bool:
    return bool(_TOO_LONG.search(f"{detail[:_MAX_TEXT]} {error.get('code')} {error.get('type')}"))


def _cause(detail: str) -> str:
    """What can be done so that it does not come again."""
    return _OF_FULL if detail == _FULL else ""


def _status(error: Mapping[str, Any]) -> int | None:
    for name in ("status", "status_code", "code"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value <= 599:
            return value
    names = (error.get("code"), error.get("type"))
    return next((_STATUS_OF_NAME[name] for name in names if isinstance(name, str) and name in _STATUS_OF_NAME), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks for, None when it does not say.

    `retry-after-ms` goes before `Retry-After`, which is a number of seconds or a date.
    """
    exact = _seconds(headers.get("retry-after-ms", ""), 0.001)
    return _seconds(headers.get("retry-after", "")) if exact is None else exact


def _seconds(value: str, unit: float = 1.0) -> float | None:
    value = value.strip()
    try:
        seconds = float(value) * unit
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
