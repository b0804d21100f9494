"""What a text is about is kept as a bounded number of short hashes."""

import pytest

from pentad.shared.digests.wording import MOST_CHARS, MOST_WORDS, clean, length_of, words_of

HOSTILE = [
    *("", " ", "\x00", "\ud800\udfff", "?" * 65_536, "a" * 65_536, "1" * 65_536, "好的" * 32_768),
    *("\ufdfa" * 65_536, "a\u0301" * 32_768, "مرحبا " * 10_000, "𝔘𝔫𝔦" * 20_000),
    " ".join(f"word{n}" for n in range(9_000)),
]


def words(text: str) -> set[int]:
    return set(words_of(clean(text)))


@pytest.mark.parametrize("text", HOSTILE)
def test_words_are_few_and_small_whatever_the_text_is(text: str) -> None:
    found = words_of(clean(text))
    assert len(clean(text)) <= MOST_CHARS
    assert len(found) == len(set(found)) <= MOST_WORDS
    assert all(0 <= word < 65_536 for word in found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Which FLIGHTS are there?", "a flight"),
        ("ｆｌｉｇｈｔ", "flight"),
        ("我想订北京的酒店", "酒店在哪里？"),
        ("room 42", "42!"),
    ],
)
def test_the_same_word_is_found_in_another_form(one: str, other: str) -> None:
    assert words(one) & words(other)


@pytest.mark.parametrize("text", ["could you please tell me about it", "请帮我找一下", "a", "...", "thanks"])
def test_words_that_are_said_about_anything_are_left_out(text: str) -> None:
    assert not words(text)


@pytest.mark.parametrize(("text", "length"), [("", 0), ("two words", 2), ("你好", 2), ("去 Paris 吧", 3), ("?!", 0)])
def test_a_length_counts_words_and_chinese_characters(text: str, length: int) -> None:
    assert length_of(clean(text)) == length
