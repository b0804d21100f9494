"""What the words of model servers teach: the table of refusals against what servers say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pentad.shared.models.model_failures import error_in, from_status, message_in
from pentad.shared.models.ports import ModelFailed, ModelMisconfigured, ModelRefused, ModelTooLong, ModelUnavailable
from pentad.shared.models.refusal import ServerRefusal, read_refusal
from pentad.shared.models.refusal_table import RefusedRequest, changes_for, speaks_of_request
from pentad.shared.models.request_change import Change
from pentad.shared.models.stated_delay import is_used_up, stated_delay
from pentad.shared.models.too_long import limit_in, room_left, says_too_long
from tests.support.models.refusals import FIELDS, NOW, told

REQUIRED = frozenset({"messages", "model"})
REFUSED = RefusedRequest(FIELDS, REQUIRED, ("alpha", "run"), ("alpha",))


def failed(status: int, body: Any, headers: dict[str, str] | None = None) -> ModelFailed:
    error = error_in(body)
    words = message_in(error) or str(body)
    return from_status(status, words, stated_delay(headers or {}, body, words, NOW), "http://m", error)


def taught(refusal: ServerRefusal | None, refused: RefusedRequest = REFUSED) -> Iterator[str]:
    assert refusal is not None
    for found in changes_for(refusal, refused):
        for change in found if isinstance(found, tuple) else (found,):
            yield " ".join(str(part) for part in (change.kind, change.name, change.value) if part != "")


@pytest.mark.parametrize("row", told("fields"))
def test_a_refusal_that_names_a_field_says_what_to_change(row: Any) -> None:
    """Promise: a field that a server refuses is found in each usual form of a refusal."""
    assert next(taught(failed(row["status"], row["body"]).refusal)) == row["change"]


@pytest.mark.parametrize("row", told("no_tools"))
def test_a_model_that_takes_no_tools_is_offered_none(row: Any) -> None:
    """Promise: "does not support tools" is understood in the words of each server, whatever its status."""
    assert next(taught(failed(row["status"], row["body"]).refusal)) == "no_tools"


@pytest.mark.parametrize("row", told("too_long"))
def test_a_prompt_that_is_too_long_is_told_as_that_with_its_limit(row: Any) -> None:
    """Promise: too long is understood in the words of each provider and server, with the limit where it is named."""
    failure = failed(row["status"], row["body"])
    assert isinstance(failure, ModelTooLong)
    assert failure.limit == row["limit"]
    assert "too long for this model" in str(failure)
    assert "change the request" not in str(failure)
    assert failure.limit is None or f"{failure.limit:,} tokens" in str(failure)


@pytest.mark.parametrize("row", told("delays"))
def test_a_stated_delay_is_read_in_each_form(row: Any) -> None:
    """Promise: a delay in the headers or the body of a 429 is known, so that it is waited for."""
    failure = failed(429, row["body"], row["headers"])
    assert isinstance(failure, ModelUnavailable)
    assert failure.retry_after == pytest.approx(row["seconds"])


@pytest.mark.parametrize("row", told("used_up"))
def test_a_quota_that_is_used_up_is_final(row: Any) -> None:
    """Promise: a quota that waiting a while does not bring back is told at once, and not asked for again."""
    assert type(failed(429, row["body"])) is ModelMisconfigured


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000", False),
        ("ThrottlingException: Too many tokens, please wait before trying again.", False),
        ("max_tokens is too large: 9000. This model supports at most 4096 completion tokens", False),
        ("Invalid 'tools[0].function.description': string too long. Expected a maximum length 1024", False),
        ("no such model", False),
        ("prompt is too long", True),
    ],
)
def test_what_is_not_about_the_length_of_a_prompt_is_not_told_so(words: str, fits: bool) -> None:
    """Promise: rates, the length of answers and of descriptions are no too long prompts."""
    assert says_too_long(words) is fits


@pytest.mark.parametrize(
    ("words", "asked", "left"),
    [
        ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease", 16_384, 9_984),
        ("maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the "
         "completion)", 4_000, 3_080),
        ("'max_tokens' is too large: 40000. This model's maximum context length is 32768 tokens and your request has "
         "12 input tokens (40000 > 32768 - 12)", 40_000, 32_740),
        ("maximum context length is 4096 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the "
         "completion)", 4_000, None),
        ("prompt is too long: 213462 tokens > 200000 maximum", 16_384, None),
    ],
)  # fmt: skip
def test_an_answer_that_leaves_no_room_for_its_prompt_is_made_shorter(words: str, asked: int, left: int | None) -> None:
    """Promise: a prompt that fits is not told to be too long for the answer that is reserved beside it."""
    assert says_too_long(words)
    assert room_left(words, asked) == left


LIGHTER = ["loosen_tools 1", "loosen_tools 2", "loosen_tools 3", "shorten_descriptions 1024"]


@pytest.mark.parametrize(
    ("nobody", "message", "changes"),
    [
        (False, "Invalid schema for function 'run': 'prefixItems' is not permitted", [*LIGHTER, "omit_tool run"]),
        (
            False,
            "Unknown name \"exclusiveMinimum\" at 'tools[0].function_declarations[0].parameters.properties[0].value'",
            [*LIGHTER, "omit_tool alpha"],
        ),
        (
            False,
            "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
            [*LIGHTER, "omit_tool run"],
        ),
        (
            False,
            "Invalid 'tools[1].function.description': string too long. Expected a string with maximum length 900, but "
            "got a string with length 2028 instead.",
            ["shorten_descriptions 900", *LIGHTER[:1]],
        ),
        (
            True,
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length "
            "130 instead.",
            ["fewer_tools 128"],
        ),
        (
            False,
            "Invalid 'tools[0].function.name': string does not match pattern.",
            ["omit_tool alpha", "loosen_tools 1"],
        ),
        (True, "The provided JSON schema contains features not supported by xgrammar.", LIGHTER[:2]),
        (True, "Tool schema error", [*LIGHTER, "omit_tool alpha", "no_tools"]),
    ],
)
def test_a_tool_that_is_refused_is_said_in_less_and_less_and_left_out_alone(
    nobody: bool, message: str, changes: list[str]
) -> None:
    """Promise: the tool that is refused is loosened, then left out alone; all are only where none is named."""
    body = {"error": {"message": message, "type": "invalid_request_error"}}
    refused = RefusedRequest(
        {name: FIELDS[name] for name in ("model", "messages", "tools")}, REQUIRED, REFUSED.tools, REFUSED.unusual_tools
    )
    found = list(dict.fromkeys(taught(failed(400, body).refusal, refused)))
    found = [change for change in found if change not in ("json_object", "omit response_format")]
    assert found[: len(changes)] == changes
    assert ("no_tools" in found) is nobody


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("Conversation roles must alternate user/assistant/user/assistant/...", "alternate"),
        ("System role not supported", "no_system"),
        ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "no_system"),
        ("Developer instruction is not enabled for models/gemma", "no_system"),
        ("Unsupported value: 'messages[2].role' does not support 'tool' with this model.", "calls_as_text"),
        ("This model only supports single tool-calls at once!", "calls_as_text"),
        ("messages.1.content: Input should be a valid string", "no_null"),
        ("Invalid value for 'messages[3].content': expected a string, got null.", "no_null"),
        ("messages.3.content: text content blocks must be non-empty", "no_empty_text"),
        ("Missing `reasoning_content` field in the assistant message at message index 2", "fill_reasoning"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "fill_reasoning"),
        ("'messages.2' : for 'role:assistant' the following must be satisfied: property 'reasoning_content' is "
         "unsupported", "no_reasoning"),
        ("Failed to initialize samplers: failed to parse grammar", "loosen_tools 1"),
    ],
)  # fmt: skip
def test_a_refusal_that_names_a_message_or_a_form_says_what_to_change(message: str, change: str) -> None:
    """Promise: messages in a form that a server refuses are sent in another."""
    body = {"error": {"message": message, "type": "invalid_request_error"}}
    assert change in list(taught(failed(400, body).refusal))[:2]


@pytest.mark.parametrize("word", ["stop", "user", "seed", "tools", "stream"])
def test_a_word_of_english_is_no_name_of_a_field(word: str) -> None:
    """Promise: nothing is left out of a request because a server's sentence has a word in common with it."""
    body = {"error": {"message": f"please {word} doing that here", "type": "invalid_request_error"}}
    assert list(taught(failed(400, body).refusal)) == []


def test_what_repeats_the_request_is_not_read() -> None:
    """Promise: what a user has written teaches nothing when a server repeats it in its refusal."""
    body = {"detail": [{"loc": ["body", "model"], "msg": "no", "input": {"x": "m does not support tools"}}]}
    assert list(taught(failed(422, body).refusal)) == []


@pytest.mark.parametrize("status", [401, 402, 429])
def test_keys_credit_and_rates_teach_nothing_of_the_request(status: int) -> None:
    """Promise: what is not about the request changes no request."""
    assert failed(status, {"error": {"message": "`temperature` is not supported"}}).refusal is None


def test_an_outage_in_a_servers_words_of_a_form_teaches_and_every_other_does_not() -> None:
    """Promise: servers that refuse with 500 are understood, and outages stay outages."""
    grammar = failed(500, {"error": {"message": "failed to parse grammar"}})
    assert isinstance(grammar, ModelUnavailable)
    assert next(taught(grammar.refusal)) == "loosen_tools 1"
    assert failed(500, {"error": {"message": "`temperature` is broken"}}).refusal is None


def test_a_field_that_is_required_is_never_left_out() -> None:
    """Promise: a request keeps what its protocol demands."""
    refused = RefusedRequest(FIELDS, REQUIRED | {"max_tokens"})
    body = {"error": {"message": "`max_tokens` is not supported"}}
    assert list(taught(failed(400, body).refusal, refused)) == []


HOSTILE = [
    part * (1_000_000 // len(part))
    for part in (
        "a", "tools ", "1h", "does not support ", "context length ", "retry ", "1,2,", "tools[0]", "'loc': (", "[",
        'use the "', "maximum a b c d e ", "exceeds the a b ", "unsupported ", "system ", "x: ", "property a, ",
    )
]  # fmt: skip


@pytest.mark.parametrize("words", HOSTILE, ids=range(len(HOSTILE)))
def test_no_pattern_takes_long_on_hostile_words(words: str) -> None:
    """Promise: an error of a million characters holds nobody up."""
    begun = time.thread_time()
    refusal = read_refusal(400, {"error": {"message": words, "param": words}}, words)
    list(changes_for(refusal, REFUSED))
    says_too_long(refusal.words), limit_in(refusal.words), room_left(refusal.words, 9_000)
    stated_delay({"retry-after": refusal.words}, {"retry_after": words}, refusal.words, NOW)
    is_used_up({}, refusal.words, None)
    speaks_of_request(refusal.words)
    assert time.thread_time() - begun < 0.25


def test_changes_say_what_they_do() -> None:
    """Promise: the log and the doctor can say each change in words."""
    assert str(Change("omit", "seed")) == "seed is not sent to it"
    assert isinstance(failed(400, {"error": "x"}), ModelRefused)
