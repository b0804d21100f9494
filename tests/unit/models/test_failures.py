"""Each failure of a model server answers: never, later, or again."""

from typing import Any

import pytest

from pentad.shared.models.failures import from_status, from_stream_error, retry_after
from pentad.shared.models.ports import ModelCutOff, ModelFailed, ModelMisconfigured, ModelRefused, ModelUnavailable


@pytest.mark.parametrize("status", [400, 413, 415, 422, 451])
def test_a_refusal_is_final(status: int) -> None:
    assert type(from_status(status, "no", None, "http://m")) is ModelRefused


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
def test_a_refusal_that_says_nothing_of_the_request_is_final_for_this_model_alone(status: int) -> None:
    assert type(from_status(status, "no", None, "http://m")) is ModelMisconfigured


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_an_outage_is_for_later(status: int) -> None:
    failure = from_status(status, "busy", 7.0, "http://m")
    assert isinstance(failure, ModelUnavailable)
    assert failure.retry_after == 7.0


def test_a_long_text_of_the_server_is_shortened_to_one_line() -> None:
    text = str(from_status(400, "x\n" * 10_000, None, "http://m"))
    assert len(text) < 700
    assert "\n" not in text


@pytest.mark.parametrize(
    ("chunk", "began", "expected"),
    [
        ({"choices": [{"delta": {}}]}, False, None),
        ({"choices": [{"delta": {}}], "error": None}, False, None),
        ({"id": "x"}, True, None),
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


@pytest.mark.parametrize("value", ["", "soon", "-1", "nan", "inf", "1e99", "Wed, 99 Foo 2015"])
def test_a_retry_after_that_cannot_be_read_is_no_advice(value: str) -> None:
    assert retry_after({"retry-after": value}) is None
