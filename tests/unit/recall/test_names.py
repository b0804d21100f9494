"""Names are read from capital letters and marks; only rare ones lead from one memory to another."""

import pytest

from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.name_paths import MOST_MENTIONS, connected, names_to_follow
from pentad.shared.recall.proper_names import MOST_NAMES, NamesInText, names_of
from pentad.shared.recall.questions import read_question
from pentad.shared.recall.segment_features import SegmentFacts
from tests.unit.segments.transcripts import HOSTILE


@pytest.mark.parametrize(
    ("text", "sure", "perhaps"),
    [
        ("We met Jan Solovej in Copenhagen.", {"jan solovej", "copenhagen"}, set()),
        ("I read Brand's Atlas. It is by Ann-Marie O'Neill!", {"brand", "atlas", "ann-marie o'neill"}, set()),
        ("Norway is cold. We like Norway.", {"norway"}, set()),
        ("Running is fun. However, we rest.", set(), {"running"}),
        ("我昨天读了《红楼梦》，还去了Paris。", {"红楼梦", "paris"}, set()),
        ("the NASA report of 2019", {"nasa"}, set()),
        ("all small letters", set(), set()),
        ("", set(), set()),
    ],
)
def test_names_are_read(text: str, sure: set[str], perhaps: set[str]) -> None:
    assert (set(names_of(text).sure), set(names_of(text).perhaps)) == (sure, perhaps)


@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_hostile_texts_are_few_and_short(text: str) -> None:
    found = names_of(text)
    names = [*found.sure, *found.perhaps]
    assert len(names) <= MOST_NAMES
    assert all(0 < len(name) <= 64 for name in names)


def facts(*names: str) -> SegmentFacts:
    return SegmentFacts("task-0-1", None, "Ada", False, False, False, NamesInText(names, ("perhaps",)), 0)


RANKED = [RankedSegment("a", 0.8, {}), RankedSegment("b", 0.4, {}), RankedSegment("c", 0.79, {})]
FACTS = {"a": facts("oslo", "ada", "jan solovej"), "b": facts("rome"), "c": facts("oslo")}


def test_names_of_the_best_hits_are_followed_unless_the_question_or_the_speaker_is_meant() -> None:
    question = read_question("What did Jan Solovej write?")
    assert names_to_follow(question, RANKED, FACTS) == {"oslo": {"a": 1.0, "c": pytest.approx(0.79 / 0.8)}}
    assert names_to_follow(question, [], {}) == {}
    assert names_to_follow(question, [RankedSegment("a", 0.0, {})], FACTS) == {}


def test_a_hit_is_connected_by_what_others_mention_and_a_rarer_name_connects_more() -> None:
    following = {"oslo": {"a": 1.0, "c": 0.5}, "rome": {"a": 1.0}, "paris": {"a": 1.0}, "bonn": {"a": 1.0}}
    mentions = {"oslo": ["a", "c"], "rome": ["a", "d", "e", "f"], "paris": ["a", *map(str, range(MOST_MENTIONS))]}
    scores = connected(following, mentions | {"bonn": ["a"]})
    assert scores == {"a": 0.5, "c": 1.0, "d": 0.5, "e": 0.5, "f": 0.5}
