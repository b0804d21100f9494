"""Words become numbers of 32 bits, the same for a word in another form; BM25's part of a term is bounded."""

import pytest

from pentad.shared.recall.common_words import COMMON_WEIGHT
from pentad.shared.recall.terms import (
    MEAN_WORDS,
    MOST_CHARS,
    MOST_TERMS,
    asked_terms,
    indexed_terms,
    question_terms,
    terms_of,
)
from tests.unit.segments.transcripts import HOSTILE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("She paints", "PAINTING"),
        ("ｆｌｉｇｈｔｓ", "flight"),
        ("我想订北京的酒店", "酒店在哪里？"),
        ("on 2023-05-08", "8 May"),
        ("relationship", "their relationships"),
    ],
)
def test_a_word_is_found_in_another_form(one: str, other: str) -> None:
    assert set(terms_of(one)) & set(terms_of(other))


@pytest.mark.parametrize("text", ["", "...", "what is it that you were?", "🎉"])
def test_a_text_about_nothing_has_no_terms(text: str) -> None:
    assert terms_of(text) == []


def test_a_single_chinese_character_is_a_term() -> None:
    assert len(terms_of("猫")) == 1
    assert len(terms_of("猫咪叫艾达")) == 4


@pytest.mark.parametrize("text", HOSTILE)
def test_terms_of_hostile_texts_are_few_and_of_32_bits(text: str) -> None:
    terms = terms_of(text)
    assert len(terms) <= MOST_CHARS
    assert all(0 <= term < 2**32 for term in terms)
    assert terms == terms_of(text)


def test_a_terms_part_grows_with_its_count_and_shrinks_with_the_length() -> None:
    once = indexed_terms([1, 2, 3], MEAN_WORDS)[1]
    assert once < indexed_terms([1, 1, 3], MEAN_WORDS)[1] < 2.2
    assert indexed_terms([1, *range(2, 200)], MEAN_WORDS)[1] < once


def test_a_point_keeps_the_most_frequent_of_too_many_terms() -> None:
    kept = indexed_terms([*range(3_000), 2_999], MEAN_WORDS)
    assert len(kept) == MOST_TERMS
    assert 2_999 in kept


def test_a_question_counts_each_term_once() -> None:
    assert asked_terms([5, 7, 5]) == {5: 1.0, 7: 1.0}


@pytest.mark.parametrize(
    ("common", "subject"),
    [("Please explain", "photosynthesis"), ("suggesting", "tulips"), ("什么", "成都"), ("help", "2024")],
)
def test_common_words_weigh_little_in_a_question_however_they_are_inflected(common: str, subject: str) -> None:
    weights = question_terms(f"{common} {subject} {common}")
    assert list(weights) == list(dict.fromkeys(terms_of(f"{common} {subject} {common}")))
    assert {weights[term] for term in terms_of(common)} == {COMMON_WEIGHT}
    assert {weights[term] for term in terms_of(subject)} == {1.0}


def test_terms_that_are_kept_mean_the_same_in_the_next_version() -> None:
    assert terms_of("She painted 3 boats in 里斯本") == [1467646999, 1842515611, 3631121226, 3906842911, 2506753048]
