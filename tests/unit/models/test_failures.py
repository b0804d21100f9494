"""Each failure of a model server answers: never, later, or again."""

from time import time
from typing import Any

import pytest

from pentad.shared.models.model_failures import error_in, from_status, from_stream_error
from pentad.shared.models.ports import (
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
)
from pentad.shared.models.stated_delay import stated_delay


@pytest.mark.parametrize("status", [400, 415, 422, 451])
def test_a_refusal_is_final(status: int) -> None:
    assert type(from_status(status, "no", None, "http://m")) is ModelRefused


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 501])
def test_a_refusal_that_says_nothing_of_the_request_is_final_for_this_model_alone(status: int) -> None:
    assert isinstance(from_status(status, "no", None, "http://m"), ModelMisconfigured)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_an_outage_is_for_later(status: int) -> None:
    failure = from_status(status, "busy", 7.0, "http://m")
    assert isinstance(failure, ModelUnavailable)
    assert failure.retry_after == 7.0


@pytest.mark.parametrize("name", ["code", "type"])
@pytest.mark.parametrize("what", ["insufficient_quota", "exceeded_current_quota_error", "Arrearage"])
def test_an_account_without_credit_is_not_waited_for(name: str, what: str) -> None:
    failure = from_status(429, "You exceeded your current quota", 3.0, "http://m", {name: what})
    assert type(failure) is ModelMisconfigured
    assert "answered 429" in str(failure)
    assert "no credit left" in str(failure)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
@pytest.mark.parametrize(
    ("detail", "error"),
    [
        ("This model's maximum context length is 8192 tokens", {}),
        ("the request exceeds the available context size, try increasing it", {}),
        ("litellm.ContextWindowExceededError: no", {"code": "context_window_exceeded"}),
        ("prompt is too long: 205000 tokens > 200000 maximum", {}),
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000", {}),
        ("x", {"type": "exceed_context_size_error"}),
        ("input (3000 tokens) is too large to process. increase the physical batch size", {}),
    ],
)
def test_a_conversation_that_is_too_long_is_not_asked_again(status: int, detail: str, error: dict[str, Any]) -> None:
    failure = from_status(status, detail, None, "http://m", error)
    assert type(failure) is ModelTooLong
    assert "too long for this model" in str(failure)


def test_too_many_tokens_a_minute_is_for_later() -> None:
    detail = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000"
    assert type(from_status(429, detail, None, "http://m")) is ModelUnavailable


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"error": {"message": "no"}}, "no"),
        ([{"error": {"message": "no"}}], "no"),
        ({"error": "no"}, "no"),
        ({"message": "no"}, "no"),
        ({"detail": "no"}, None),
        ([], None),
        ("no", None),
        (None, None),
        ([7], None),
    ],
)
def test_an_error_object_is_found_in_whatever_form(said: Any, message: str | None) -> None:
    assert error_in(said).get("message") == message


def test_a_long_text_of_the_server_is_shortened_to_one_line() -> None:
    text = str(from_status(400, "x\n" * 10_000, None, "http://m"))
    assert len(text) < 700
    assert "\n" not in text


@pytest.mark.parametrize(
    ("chunk", "began", "expected"),
    [
        ({"choices": [{"delta": {}}]}, False, None),
        ({"choices": [{"delta": {}}], "error": None}, False, None),
        ({"choices": [{"delta": {}}], "error": {"message": "busy", "code": 503}}, True, ModelCutOff),
        (
            {"choices": [{"delta": {"content": "x"}}], "error": {"message": "busy", "code": 503}},
            False,
            ModelUnavailable,
        ),
        ({"choices": [{"delta": {}}], "error": "provider went away"}, True, ModelCutOff),
        ({"id": "x"}, True, None),
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, False, ModelTooLong),
        ({"error": {"message": "Context size has been exceeded.", "code": 500}}, True, ModelCutOff),
        ({"error": {"message": "Context size has been exceeded.", "code": 500}}, False, ModelUnavailable),
        ({"error": {"message": "no embeddings here", "code": 501}}, False, ModelMisconfigured),
        ({"error": {"message": "x", "code": None, "type": "BadRequestError"}}, False, ModelRefused),
        ({"error": {"message": "x", "type": "insufficient_quota"}}, False, ModelMisconfigured),
        ({"error": {"message": "x", "code": "rate_limit_exceeded"}}, False, ModelUnavailable),
        ({"error": {"message": "bad", "code": 400}}, True, ModelRefused),
        ({"error": {"message": "busy", "code": 429}}, False, ModelUnavailable),
        ({"error": {"message": "busy", "code": "503"}}, False, ModelUnavailable),
        ({"error": {"message": "busy", "code": 503}}, True, ModelCutOff),
        ({"error": {"message": "oops", "code": "server_error"}}, False, ModelCutOff),
        ({"error": "oops"}, False, ModelCutOff),
        ({"object": "error", "message": "too long", "code": 400}, False, ModelRefused),
        ({"type": "error", "message": "x"}, False, ModelCutOff),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, False, ModelUnavailable),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, True, ModelCutOff),
        ({"type": "error", "error": {"type": "rate_limit_error"}}, False, ModelUnavailable),
        ({"type": "error", "error": {"type": "invalid_request_error"}}, True, ModelRefused),
        ({"type": "error", "error": {"type": "something_new"}}, False, ModelCutOff),
        ({"type": "error", "error": {"type": ["overloaded_error"]}}, False, ModelCutOff),
    ],
)
def test_an_error_within_the_stream_is_classified(
    chunk: dict[str, Any], began: bool, expected: type[ModelFailed] | None
) -> None:
    failure = from_stream_error(chunk, began, "http://m")
    assert (type(failure) if failure else None) is expected


def retry_after(headers: dict[str, str]) -> float | None:
    return stated_delay(headers, {}, "", time())


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("3", 3, 3),
        ("0.5", 0.5, 0.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", None, None),
    ],
)
def test_retry_after_is_read_as_number_or_date(value: str, low: float | None, high: float | None) -> None:
    seconds = retry_after({"retry-after": value})
    if low is None or high is None:
        assert seconds is None, "a date beyond reason is no advice"
    else:
        assert seconds is not None
        assert low <= seconds <= high


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "0"}, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after-ms": "-5"}, None),
        ({"retry-after-ms": "nan"}, None),
    ],
)
def test_retry_after_in_milliseconds_goes_first(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-1", "nan", "inf", "1e99", "Wed, 99 Foo 2015"])
def test_a_retry_after_that_cannot_be_read_is_no_advice(value: str) -> None:
    assert retry_after({"retry-after": value}) is None
