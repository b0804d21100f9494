"""A question about nothing that is known finds nothing, though a search has always a best one."""

import pytest

from pentad.shared.recall.relevance import about, has_subject
from tests.unit.segments.transcripts import HOSTILE

KNOWN = [
    "my cat is called Ada",
    "The ferry to Bergen leaves at nine.",
    "我的妹妹住在成都。",
    "Dance makes me feel free, and my studio opens in May.",
    "I keep that in mind.",
    "We went camping at the lake last weekend and it was wonderful.",
]


def best_first(question: str) -> list[str]:
    """What is kept when the searches put them in this order and near each other."""
    return [KNOWN[place] for place in about(question, KNOWN, [0.9, 0.8, 0.8, 0.8, 0.7, 0.7])]


@pytest.mark.parametrize(
    "question", ["what is my cat called?", "Bergen ferry", "我的妹妹住在哪里？", "a studio for dancing"]
)
def test_a_question_about_what_is_known_is_recognised(question: str) -> None:
    assert best_first(question)


@pytest.mark.parametrize(
    "question",
    [
        "what is the capital of Mongolia?",
        "How do I reverse a list in Python?",
        "Which planet has the most moons, and how is it called?",
        "东京的天气怎么样？",
        "what is (15+27)*3-42/6?",
        "fix the bug in parser.py line 30",
    ],
)
def test_a_question_about_nothing_known_finds_nothing(question: str) -> None:
    assert best_first(question) == []


def test_what_compares_with_the_best_comes_with_it_and_the_rest_does_not() -> None:
    assert about("what is my cat called", KNOWN[:3], [0.8, 0.4, 0.39]) == [0, 1]


def test_a_word_that_all_have_says_nothing_beside_a_rare_one() -> None:
    meetings = [f"notes of meeting {n}" for n in range(8)]
    assert about("notes about penguins", meetings, [0.5] * 8) == []
    assert about("notes about penguins", ["notes about penguins in spring", *meetings], [0.9, *[0.2] * 8]) == [0]


def test_in_a_small_memory_a_subject_that_most_speak_of_is_still_one() -> None:
    assert about("how old is my cat?", ["my cat is called Ada", "my cat likes tuna", "fine"], [0.9, 0.8, 0.1]) == [0, 1]


def test_a_common_word_makes_a_young_memory_about_nothing() -> None:
    young = ["Please water the orchids.", "Please tell me when it is done."]
    assert about("Please tell me the capital of Mongolia.", young, [0.9, 0.9]) == []
    assert about("Please water the orchids again.", young, [0.9, 0.4]) == [0]


def test_nothing_found_and_nothing_asked() -> None:
    assert about("cat", [], []) == []
    assert about("how are you?", KNOWN, [0.5] * 6) == []


@pytest.mark.parametrize("text", ["hello", "thanks!", "ok, go on", "你好", "？！", "", "and how are you?"])
def test_small_talk_has_no_subject(text: str) -> None:
    assert not has_subject(text)


@pytest.mark.parametrize("text", ["my cat", "我的猫叫什么", "Ærø?", "order 4711"])
def test_what_names_something_has(text: str) -> None:
    assert has_subject(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_on_both_sides(text: str) -> None:
    assert set(about(text, [text[:800], "cat"], [0.5, 0.5])) <= {0, 1}
    assert about("cat", [text[:800], "cat"], [0.5, 0.5]) in ([0, 1], [])
    assert has_subject(text) in (True, False)
