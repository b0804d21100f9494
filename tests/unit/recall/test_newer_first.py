"""Of two statements of one thing the newer comes first, whatever else is found stays in its order."""

import pytest

from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.newer_first import newer_first
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.recall.segment_features import SegmentFacts

Said = tuple[str, float, int]
"""A text, its score, when it was said."""
NO_NAMES = NamesInText((), ())


def facts(at: int, *, by_user: bool = True, asks: bool = False) -> SegmentFacts:
    return SegmentFacts("task-0-1", None, "", by_user, asks, False, NO_NAMES, at)


def order(*said: Said, by_user: bool = True, asks: bool = False) -> list[str]:
    ranked = [RankedSegment(text, score, {"words": score}) for text, score, _ in said]
    known = {text: facts(at, by_user=by_user, asks=asks) for text, _, at in said}
    found = newer_first(ranked, known, {text: text for text in known}, 1.0)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert all(sum(each.parts.values()) == pytest.approx(each.score) for each in found)
    return [each.id for each in found]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My locker code is 4711.", "My locker code is 9302."),
        ("My locker code is 4711.", "My locker code is 9302 now, they have changed it."),
        ("I live in Berlin", "I live in Munich"),
        ("The meeting is on Tuesday at nine", "The meeting is on Wednesday at ten"),
        ("我的密码是一二三四", "我的密码是五六七八"),
    ],
)
def test_the_newer_statement_of_one_thing_comes_first(older: str, newer: str) -> None:
    assert order((older, 0.6, 1_000), (newer, 0.55, 3_000)) == [newer, older]
    assert order((newer, 0.6, 3_000), (older, 0.55, 1_000)) == [newer, older]


def test_the_newest_of_many_comes_first_and_the_others_stay() -> None:
    said = [(f"My code is {n}{n}", 0.9 - n / 100, n) for n in (1, 2, 3)]
    beside = ("The boat is green", 0.885, 9)
    assert order(said[0], beside, *said[1:]) == ["My code is 33", "My code is 22", "My code is 11", "The boat is green"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (("My locker code is 4711", 0.6, 5), ("The boat is green", 0.59, 9)),
        (("My locker code is 4711", 0.6, 5), ("My locker code is 9302", 0.3, 9)),
        (("My locker code is 4711", 0.6, 5), ("My locker code is 9302", 0.6, 0)),
        (("My locker code is 4711", 0.6, 5), ("My locker code is 9302" + " and so on" * 50, 0.6, 9)),
        (("is it", 0.6, 5), ("it is", 0.6, 9)),
    ],
    ids=["another thing", "found far less", "without a time", "long", "no words"],
)
def test_all_else_stays_in_its_order(older: Said, newer: Said) -> None:
    assert order(older, newer) == [older[0], newer[0]]


def test_a_question_states_nothing() -> None:
    assert order(("What is my code 1", 0.6, 5), ("What is my code 2", 0.5, 9), asks=True)[0] == "What is my code 1"


def test_an_answer_does_not_come_before_what_the_user_said() -> None:
    ranked = [RankedSegment("My code is 47", 0.6, {}), RankedSegment("Your code is 12", 0.6, {})]
    known = {"My code is 47": facts(5), "Your code is 12": facts(9, by_user=False)}
    assert newer_first(ranked, known, {name: name for name in known}, 1.0) == ranked
