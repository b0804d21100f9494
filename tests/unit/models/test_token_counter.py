"""A count of tokens errs to the high side, before and after it is calibrated, and costs what a prompt adds."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from pentad.shared.models import token_counter
from pentad.shared.models.token_counter import MARGIN, Texture, TokenCounter, bound_of

COUNTED: dict[str, Any] = json.loads((Path(__file__).parent / "token_counts.json").read_text())
TOKENIZERS: list[str] = COUNTED["tokenizers"]
TEXTS: list[dict[str, Any]] = COUNTED["texts"]
OF_A_MESSAGE, OF_A_PROMPT = 6, 8
"""Tokens that the servers of these tests add, as chat templates do."""
ORDINARY = ("english", "code", "json")
"""Kinds of text that tokens are cheapest for; conversations are mostly of these."""


def line_of(text: str) -> bytes:
    return to_json({"role": "user", "content": text})


def real(tokenizer: str, texts: Sequence[dict[str, Any]]) -> int:
    """What a server with this tokenizer counts in a prompt of these texts."""
    column = TOKENIZERS.index(tokenizer)
    return OF_A_PROMPT + sum(int(text["tokens"][column]) + OF_A_MESSAGE for text in texts)


def lines(texts: Sequence[dict[str, Any]]) -> list[bytes]:
    return [line_of(text["text"]) for text in texts]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text['kind']}-{text['text'][:8]!r}")
def test_an_uncalibrated_count_is_never_below_what_a_tokenizer_counts(text: dict[str, Any], tokenizer: str) -> None:
    assert TokenCounter().count(lines([text])) >= real(tokenizer, [text])


CONVERSATIONS = st.lists(st.integers(0, len(TEXTS) - 1), min_size=30, max_size=60)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(picked=CONVERSATIONS)
def test_a_calibrated_count_of_mixed_text_is_never_below_by_more_than_its_margin(
    tokenizer: str, picked: list[int]
) -> None:
    """Promise: while a conversation of any mixture grows by a message a step, each count, made before the answer, is at
    least what the server then reports, less the margin."""
    counter = TokenCounter()
    texts: list[dict[str, Any]] = []
    for number in picked:
        texts.append(TEXTS[number])
        counted, reported = counter.count(lines(texts)), real(tokenizer, texts)
        assert counted * MARGIN >= reported
        counter.learn(lines(texts), None, reported)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_count_of_ordinary_text_comes_near_what_is_reported(tokenizer: str) -> None:
    """Promise: calibration is worth something: after forty answers a count is at most a third too high."""
    counter = TokenCounter()
    ordinary = [text for text in TEXTS if text["kind"] in ORDINARY] * 4
    for _ in range(40):
        counter.learn(lines(ordinary), None, real(tokenizer, ordinary))
    assert real(tokenizer, ordinary) <= counter.count(lines(ordinary)) <= 1.34 * real(tokenizer, ordinary)
    assert TokenCounter().count(lines(ordinary)) > 1.34 * real(tokenizer, ordinary)


def test_an_answer_that_costs_more_than_was_counted_counts_at_once() -> None:
    """Promise: a script that a tokenizer does not know, or a template of a server's own, is counted too low once."""
    counter, texts = TokenCounter(), [line_of("ዓለም አቀፍ ድርድሮች ያለ ውጤት ተጠናቀቁ እና ተሳታፊዎች ተስማሙ" * 6)]
    costs = 3 * counter.count(texts)
    counter.learn(texts, None, costs)
    assert counter.count(texts) >= costs


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_cheap_lines_say_nothing_of_lines_of_another_kind(tokenizer: str) -> None:
    """Promise: after a long conversation in prose a table of numbers is still counted for what it may cost."""
    counter = TokenCounter()
    prose = [text for text in TEXTS if text["kind"] == "english"] * 5
    for _ in range(60):
        counter.learn(lines(prose), None, real(tokenizer, prose))
    for kind in ("numbers", "base64", "hex", "chinese", "korean", "greek"):
        others = [text for text in TEXTS if text["kind"] == kind]
        before = counter.count(lines(prose))
        added = counter.count([*lines(prose), *lines(others)]) - before
        assert added >= real(tokenizer, others) - OF_A_PROMPT, kind


PROSE = [line_of("Some words that are said. " * 80)]


def test_a_cheap_answer_lowers_a_count_by_little() -> None:
    """Promise: what was costly is remembered for some twenty answers."""
    counter, costs = TokenCounter(), TokenCounter().count(PROSE)
    counter.learn(PROSE, None, costs)
    before = counter.count(PROSE)
    for _ in range(10):
        counter.learn(PROSE, None, costs // 4)
    assert before > counter.count(PROSE) > 0.7 * before


@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 1.0, 1.5])
def test_a_count_never_falls_below_what_is_reported(share: float) -> None:
    counter = TokenCounter()
    reported = round(counter.count(PROSE) * share)
    for _ in range(200):
        counter.learn(PROSE, None, reported)
        assert counter.count(PROSE) >= MARGIN * reported
    assert counter.count(PROSE) <= MARGIN * reported + 2


def test_a_count_is_believed_to_a_floor_alone() -> None:
    counter = TokenCounter()
    bound = counter.count(PROSE)
    for _ in range(200):
        counter.learn(PROSE, None, 1)
    assert counter.count(PROSE) > 0.45 * bound


def test_tools_are_counted_with_what_servers_say_about_them() -> None:
    tools = to_json([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
    counter = TokenCounter()
    assert counter.count([line_of("x")], tools) - counter.count([line_of("x")]) >= 400 + 20


@pytest.mark.parametrize("reported", [0, -5, 10**9])
def test_a_number_that_a_server_made_up_teaches_nothing(reported: int) -> None:
    counter, texts = TokenCounter(), [line_of("some words that are said " * 40)]
    before = counter.count(texts)
    counter.learn(texts, None, reported)
    assert counter.count(texts) == before


def test_a_prompt_of_a_few_words_teaches_nothing() -> None:
    counter, texts = TokenCounter(), [line_of("hi")]
    before = counter.count(texts)
    counter.learn(texts, None, 3)
    assert counter.count(texts) == before


@given(st.binary(max_size=400))
def test_any_bytes_have_a_bound(line: bytes) -> None:
    assert 0 <= bound_of(line)[1] <= 8 * max(1, len(line))


def test_a_line_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a step costs what it adds."""
    looked: list[bytes] = []

    def look(line: bytes) -> tuple[Texture, float]:
        looked.append(line)
        return bound_of(line)

    monkeypatch.setattr(token_counter, "bound_of", look)
    counter, texts = TokenCounter(), [line_of(f"message {number}") for number in range(50)]
    for end in range(1, 51):
        counter.count(texts[:end])
        counter.learn(texts[:end], None, 300)
    assert looked == texts


def test_what_is_remembered_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counter, "_MAX_LINES", 10)
    counter = TokenCounter()
    for number in range(100):
        counter.count([line_of(f"message {number}")])
    assert len(counter._known) == 10


def test_a_megabyte_is_counted_in_a_few_milliseconds() -> None:
    for text in ("The quick brown fox. ", "上下文长度", "0123456789abcdef"):
        line = line_of(text * (1_000_000 // len(text.encode())))
        begun = thread_time()
        TokenCounter().count([line])
        assert thread_time() - begun < 0.1, text
