"""How much a segment matters is said by a few figures, in English and Chinese, and is bounded whatever it says."""

from typing import Any

import pytest

from pentad.shared.recall.cues import MIN_IMPORTANCE, importance_of, names_time
from pentad.shared.recall.proper_names import names_of
from pentad.shared.recall.terms import terms_of, words_digest
from pentad.shared.segments.segment import Segment, segments_of
from tests.unit.segments.transcripts import HOSTILE, answered, said


def importance(message: dict[str, Any]) -> float:
    return weighed(*segments_of("t1", "task-0-1", [message])[:1])


def weighed(segment: Segment) -> float:
    text = segment.text
    return importance_of(segment, names_of(text), terms_of(text), dated=names_time(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the ferry is painted blue", 0.4),
        ("the ferry leaves at 9", 0.5),
        ("the ferry to Bergen leaves at 9", 0.6),
        ("my cat is called Ada", 0.7),
        ("remember that my cat is called Ada", 1.0),
        ("don’t forget the blue ferry", 0.9),
        ("what is my cat called?", 0.4),
        ("which ferry is painted blue?", 0.2),
        ("thanks", 0.2),
        ("thanks?", MIN_IMPORTANCE),
        ("我的猫叫米米。", 0.6),
        ("记住，我的猫叫米米。", 1.0),
    ],
)
def test_what_a_person_says_of_himself_or_wants_remembered_matters_most(text: str, expected: float) -> None:
    assert importance(said(text)) == expected


def test_what_is_answered_matters_less_than_what_was_said() -> None:
    assert importance(answered("my ferry is painted blue, remember")) == 0.3


@pytest.mark.parametrize("text", HOSTILE)
def test_importance_of_hostile_texts_is_in_bounds(text: str) -> None:
    for segment in segments_of("t1", "task-0-1", [said(text)])[:5]:
        assert MIN_IMPORTANCE <= weighed(segment) <= 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("My cat is called Ada.", "my  cat is called ADA!", True),
        ("Ｔｈｅ ｆｅｒｒｙ", "the ferry", True),
        ("我的猫叫米米。", "我的猫叫米米", True),
        ("the ferry leaves at nine", "the ferry leaves at ten", False),
        ("I like it", "I do not like it", False),
        ("nine ferries", "ferries nine", False),
    ],
)
def test_the_same_words_are_the_same_however_they_are_written(one: str, other: str, *, same: bool) -> None:
    assert (words_digest(one) == words_digest(other)) is same


@pytest.mark.parametrize("text", ["", "?!", " \n", "\x00"])
def test_a_text_without_words_is_like_no_other(text: str) -> None:
    assert words_digest(text) == ""
