"""A refusal that names how much a model takes tells its window, for an hour and no longer; nonsense tells nothing."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pentad.contracts.models import MAX_CONTEXT_TOKENS, MIN_CONTEXT_TOKENS
from pentad.shared.models.learned_form import LEARNED_S
from pentad.shared.models.learned_window import LearnedWindows
from pentad.shared.models.model_failures import from_status
from pentad.shared.models.ports import ModelTooLong
from pentad.shared.models.too_long import asked_in

PLACE = "http://h:1"
ASKED = {
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9044 tokens.": (8192, 9044),
    "prompt is too long: 213462 tokens > 200000 maximum": (200000, 213462),
    "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, "
    "4000 in the completion).": (65536, 70000),
    "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).": (1048576, 1200293),
    "The input token count is 2000000 but the model only supports up to 1048576.": (1048576, 2000000),
    "The prompt is too long: 140000, model maximum context length: 131071": (131071, 140000),
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it": (4096, 5000),
    "The input (70000 tokens) is longer than the model's context length (32768 tokens).": (32768, 70000),
    "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length": (
        32768,
        65673,
    ),
    "This model's maximum prompt length is 131072 but the request contains 150,000 tokens.": (131072, 150000),
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 "
    "tokens: 30000 tokens from the input messages and 10000 tokens for the completion.": (32768, 40000),
    "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 "
    "tokens.": (4096, 5000),
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]": (129024, None),
    "Input is too long for requested model.": (None, None),
    "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 4000 "
    "input tokens (9000 > 8192 - 4000).": (8192, 9000),
}
"""Words of servers, with the tokens that the model takes and those of the request."""


def refusal(words: str) -> ModelTooLong:
    failure = from_status(400, words, None, PLACE, {"message": words})
    assert isinstance(failure, ModelTooLong), failure
    return failure


@pytest.mark.parametrize("words", ASKED)
def test_a_refusal_tells_what_the_model_takes_and_what_it_was_asked(words: str) -> None:
    failure = refusal(words)
    assert (failure.limit, failure.asked) == ASKED[words]


def test_a_member_of_an_error_tells_both() -> None:
    error = {"message": "the request exceeds the available context size", "n_prompt_tokens": 5000, "n_ctx": 4096}
    failure = from_status(400, str(error["message"]), None, PLACE, error)
    assert isinstance(failure, ModelTooLong)
    assert (failure.limit, failure.asked) == (4096, 5000)


@given(st.text(max_size=300), st.integers(0, 10**9))
def test_whatever_a_server_says_nothing_below_the_limit_was_asked(words: str, limit: int) -> None:
    for text in (words, f"requested {words} tokens", f"too long: {words}", f"token count is {limit} {words}"):
        assert (found := asked_in(text, limit)) is None or found > limit


def test_the_newest_limit_counts_for_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a server that was started anew with another window is believed, and nothing is believed for ever."""
    now = [0.0]
    windows = LearnedWindows(PLACE, lambda: now[0])
    assert windows.of("m") is None
    with caplog.at_level(logging.WARNING):
        for limit in (8192, 8192, 4096):
            windows.learn("m", refusal(f"maximum context length is {limit} tokens"))
    assert (windows.of("m"), windows.of("other")) == (4096, None)
    assert windows.told == ("it takes 4,096 tokens in all: it says 'maximum context length is 4096 tokens'",)
    assert len(caplog.records) == 2, "each window is said once"
    now[0] = LEARNED_S
    assert windows.of("m") is None
    assert len(windows.told) == 0


@pytest.mark.parametrize("limit", [None, MIN_CONTEXT_TOKENS - 1, MAX_CONTEXT_TOKENS + 1])
def test_a_limit_that_is_no_window_is_ignored(limit: int | None) -> None:
    windows = LearnedWindows(PLACE)
    windows.learn("m", ModelTooLong("too long", limit))
    assert windows.of("m") is None


def test_a_proxy_of_a_thousand_models_is_remembered_in_part() -> None:
    windows = LearnedWindows(PLACE)
    for number in range(1_000):
        windows.learn(f"m{number}", ModelTooLong("too long", 4096))
    assert len(windows.told) == 64
    assert (windows.of("m0"), windows.of("m999")) == (None, 4096)
