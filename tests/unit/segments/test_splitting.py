"""Long texts are cut where a sentence ends, never within what a reader sees as one character."""

import unicodedata

import pytest

from pentad.shared.segments.segment import MAX_SEGMENT_CHARS, MIN_CUT_CHARS, spans_of
from tests.unit.segments.transcripts import HOSTILE


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in spans_of(text)]


@pytest.mark.parametrize("text", ["Hello.", "  What? Yes! \n", "好的。你呢？", "x" * MAX_SEGMENT_CHARS])
def test_a_short_text_is_one_piece_without_the_space_around_it(text: str) -> None:
    assert pieces(text) == [text.strip()]


@pytest.mark.parametrize("text", ["", " \n\t", "...", "?!", "🎉🎉", "——！！", "\x00\x07", "\u0301\u0301"])
def test_a_text_without_letters_and_digits_has_no_piece(text: str) -> None:
    assert pieces(text) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_pieces_are_bounded_and_hold_all_letters_in_order(text: str) -> None:
    found = pieces(text)
    assert all(0 < len(piece) <= MAX_SEGMENT_CHARS for piece in found)
    assert len(found) <= len(text) // MIN_CUT_CHARS + 1
    assert "".join(filter(str.isalnum, "".join(found))) == "".join(filter(str.isalnum, text))


@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        ("The committee met again on Tuesday in room 3.14 and agreed. ", "."),
        ('She said "it will rain tomorrow, take a coat!" ', '"'),
        ("委员会星期二再次开会，大家都同意了这个计划。", "。"),
        ("他问：“明天会下雨吗？”", "”"),
        ("第一条记录；", "；"),
        ("one line of a list without any stop\n", "p"),
    ],
)
def test_pieces_end_with_a_sentence(sentence: str, end: str) -> None:
    found = pieces(sentence * 400)
    assert len(found) > 2
    assert all(piece.endswith(end) for piece in found)
    assert all(piece.startswith(sentence[:4]) for piece in found)


def test_a_point_in_a_number_is_no_end() -> None:
    assert not any(piece.endswith("3.") for piece in pieces("3.14159265358979" * 200))


def test_without_sentences_words_stay_whole() -> None:
    assert {word for piece in pieces("alpha beta " * 300) for word in piece.split()} == {"alpha", "beta"}


@pytest.mark.parametrize(
    "character", ["a\u0301\u0323", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "\ud83d\ude00", "नि", "e\ufe0f"], ids=ascii
)
def test_what_a_reader_sees_as_one_character_is_not_cut(character: str) -> None:
    for offset in range(len(character)):
        text = "x" * offset + character * 2_000
        starts = [start for start, _ in spans_of(text)]
        cuts = [start for start in starts if start > offset]
        assert cuts or not any(map(str.isalnum, character))
        assert all((cut - offset) % len(character) == 0 for cut in cuts)


def test_a_pile_of_marks_that_is_longer_than_a_piece_is_cut_all_the_same() -> None:
    found = pieces("a" + "\u0301" * 5_000 + "b")
    assert max(map(len, found)) <= MAX_SEGMENT_CHARS
    assert unicodedata.combining(found[0][-1])
