"""Turns the failures of model servers into one of the three failures of a model call, in words that say what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from pentad.shared.models.refusal import read_refusal
from pentad.shared.models.refusal_table import speaks_of_request
from pentad.shared.models.stated_delay import has_no_credit, is_used_up, stated_delay
from pentad.shared.models.too_long import asked_in, limit_in, says_too_long

_RETRIED_STATUSES = frozenset({408, 409, 429})
_MAX_CHARS = 500
_UNAUTHORIZED = 401
_NOT_IMPLEMENTED = 501
_MISCONFIGURED = frozenset({401, 402, 403, 404, 405, _NOT_IMPLEMENTED})
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
"""HTTP status that stands for an error within a stream that gives only a type or code, by that name."""
_NO_CREDIT = frozenset(
    {
        "arrearage",
        "billing_hard_limit_reached",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_quota",
    }
)
"""Types and codes, in lower case, of errors that are sent as "too many requests" and do not pass by waiting."""
_SLOTS_FULL = "Context size has been exceeded."
"""The text of llama.cpp for all requests under way when they do not fit together into the context that its slots share.

A request that is too long by itself is refused before, or ends for its length: each of these fits alone.
"""
_SLOTS_ADVICE = "; its slots share one context: give it more (-c), fewer slots (-np), or this model a `concurrency`"
_AMBIGUOUS_STATUSES = frozenset({400, 413, 422, 424})
_CLEAR_STATUSES = frozenset({401, 404, 405, _NOT_IMPLEMENTED})
_PAYMENT, _TOO_LARGE, _TOO_MANY = 402, 413, 429
_SHORTER_ADVICE = "begin a new task, or use a model with a larger context"


def from_status(
    status: int, detail: str, delay: float | None, place: str, error: Mapping[str, Any] = MappingProxyType({})
) -> ModelFailed:
    """Return the failure that an HTTP error status means.

    ``detail`` is the server's own text, ``error`` its error object, ``delay`` the seconds that it asks to wait.
    """
    refusal = read_refusal(status, error, detail)
    said = f"the model server at {place} answered {status}: {shortened(detail)}"
    meant = _meant(status, detail, refusal.words, error) or status
    if meant == _TOO_MANY and is_used_up(error, refusal.words, delay):
        failure: ModelFailed = ModelMisconfigured(f"{said}; {_used_up(delay)}")
        failure.retry_after = delay
        return failure
    if is_later(meant):
        failure = ModelUnavailable(f"{said}{_cause(detail)}; try again later", delay, status=meant, stated_s=delay)
    elif meant == _TOO_LARGE:
        limit = limit_of(error, refusal.words)
        takes = "" if limit is None else f", which takes {limit:,} tokens"
        asked = None if limit is None else asked_of(error, refusal.words, limit)
        failure = ModelTooLong(f"{said}; {_ADVICE[meant]}{takes}: {_SHORTER_ADVICE}", limit, asked)
    else:
        kind = KeyRefused if meant == _UNAUTHORIZED else ModelMisconfigured if meant in _MISCONFIGURED else ModelRefused
        failure = kind(f"{said}; {_ADVICE.get(meant, 'change the request or the model')}")
    if meant not in (_UNAUTHORIZED, _PAYMENT, _TOO_MANY) and (
        _is_of_request(meant) or speaks_of_request(refusal.words)
    ):
        failure.refusal = refusal
    return failure


def _is_of_request(status: int) -> bool:
    """Whether a status alone says that the server refuses the request itself."""
    return not is_later(status) and status not in _MISCONFIGURED


def limit_of(error: Mapping[str, Any], words: str) -> int | None:
    """Return the number of tokens that a model takes: llama.cpp has it as a member of its error, others say it in
    words."""
    size = error.get("n_ctx")
    return size if type(size) is int and size > 0 else limit_in(words)


def asked_of(error: Mapping[str, Any], words: str, limit: int) -> int | None:
    """Return the number of tokens of a request that is longer than the ``limit``, as its server has counted them."""
    count = error.get("n_prompt_tokens")
    return count if type(count) is int and count > limit else asked_in(words, limit)


def _used_up(delay: float | None) -> str:
    until = "" if delay is None else f" (in {delay:,.0f} s)"
    return f"its quota is used up: raise it, wait until it is renewed{until}, or use another model"


def is_later(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _RETRIED_STATUSES or (status >= 500 and status != _NOT_IMPLEMENTED)


def from_stream_error(chunk: Mapping[str, Any], began: bool, place: str) -> ModelFailed | None:
    """Return the failure that an error object within a stream means; None when the chunk is not one.

    An error without a status of its own, once text has come, means that the answer was cut off.
    """
    error = chunk.get("error") or (chunk if chunk.get("object") == "error" or chunk.get("type") == "error" else None)
    if not error:
        return None
    fields = as_dict(error)
    detail = str(fields.get("message") or error)
    words = read_refusal(0, fields, detail).words
    status = _meant(_status(fields), detail, words, fields)
    if status is not None and (not is_later(status) or not began):
        return from_status(status, detail, stated_delay({}, fields, words, time()), place, fields)
    return ModelCutOff(
        f"the model server at {place} stopped with an error: {shortened(detail)}{_cause(detail)}; try again"
    )


def error_in(said: object) -> Mapping[str, Any]:
    """Return the error object of a body that was read as JSON, empty when there is none. Some servers send it in a
    list."""
    if isinstance(said, list):
        said = next(iter(said), None)
    fields = as_dict(said)
    inner = fields.get("error", fields)
    return inner if isinstance(inner, dict) else {"message": inner}


def message_in(error: Mapping[str, Any]) -> str:
    """Return the text of an error object for a person; empty when it has none."""
    for name in ("message", "detail", "error"):
        value = error.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list | dict) and value:
            return "; ".join(_complaints(value)) or str(value)
    return ""


def _complaints(value: Any) -> Iterator[str]:
    """Yield the complaints of pydantic: `body.stream_options: Extra inputs are not permitted`."""
    nested = as_dict(value).get("detail", value)
    for each in nested if isinstance(nested, list) else [nested]:
        found = as_dict(each)
        if isinstance(found.get("msg"), str):
            where = found.get("loc")
            yield ".".join(map(str, where)) + f": {found['msg']}" if isinstance(where, list) else found["msg"]


def _meant(status: int | None, detail: str, words: str, error: Mapping[str, Any]) -> int | None:
    """Return the status that says what to do, where the given one would have the same request sent again in vain."""
    if status in _CLEAR_STATUSES:
        return status
    if has_no_credit(words) or any(str(error.get(name)).lower() in _NO_CREDIT for name in ("code", "type")):
        return _PAYMENT
    if detail == _SLOTS_FULL:
        return status
    if status is None or is_later(status) or status in _AMBIGUOUS_STATUSES:
        return _TOO_LARGE if says_too_long(words) else status
    return status


def _cause(detail: str) -> str:
    """Return the advice that prevents the failure from coming again."""
    return _SLOTS_ADVICE if detail == _SLOTS_FULL else ""


def _status(error: Mapping[str, Any]) -> int | None:
    for name in ("status", "status_code", "code"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value <= 599:
            return value
    names = (error.get("code"), error.get("type"))
    return next((_STATUS_OF_NAME[name] for name in names if isinstance(name, str) and name in _STATUS_OF_NAME), None)


def shortened(text: str) -> str:
    """Return the text on one line, cut to 500 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 1] + "…"
