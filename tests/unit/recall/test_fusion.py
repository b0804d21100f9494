"""Scores of five searches become one order: bounded, the same each time, and only of what was found."""

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from pentad.shared.recall.fusion import (
    LETTERS_WEIGHTS,
    MEANING_WEIGHTS,
    FoundSegments,
    PartWeights,
    fused,
    highest_sum,
    spread_over_messages,
    weights_for,
)
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.recall.questions import ReadQuestion, read_question
from pentad.shared.recall.segment_features import SegmentFacts

WEIGHTS = PartWeights(text=0.5, around=0.2, words=0.3, around_words=0.3, task=0.3, answers=0.2, graph=0.5)
NOW = 1_900_000_000_000
PLAIN = SegmentFacts("task-0-1", None, "Ada", False, False, False, NamesInText((), ()), 0)
QUESTION = read_question("Which colour has the boat?")


def found(**scores: dict[str, float]) -> FoundSegments:
    empty: dict[str, dict[str, float]] = {part: {} for part in ("text", "around", "words", "around_words", "tasks")}
    return FoundSegments(**empty | scores)


def order(question: ReadQuestion, scores: FoundSegments, **facts: SegmentFacts) -> list[str]:
    return [segment.id for segment in fused(question, scores, facts, WEIGHTS, NOW)]


def test_nothing_found_is_nothing_ranked() -> None:
    assert fused(QUESTION, found(), {}, WEIGHTS, NOW) == []


def test_what_several_searches_found_comes_first() -> None:
    scores = found(text={"a": 0.6, "b": 0.58, "c": 0.1}, words={"b": 4.0, "c": 1.0})
    ranked = fused(QUESTION, scores, dict.fromkeys("abc", PLAIN), WEIGHTS, NOW)
    assert [segment.id for segment in ranked] == ["b", "a", "c"]
    assert ranked[0].parts == {"text": pytest.approx(0.48), "words": pytest.approx(0.3)}


@pytest.mark.parametrize(
    ("asked", "better", "part"),
    [
        ("What does Ada like?", {}, "speaker"),
        ("What did I say?", {"by_user": True}, "by_user"),
        ("When was it?", {"dated": True}, "when"),
        ("What is it?", {"importance": 1.0}, "importance"),
        ("Which boat?", {"wishes": True}, "wishes"),
        ("What is it?", {"at_ms": NOW - 1_000}, "recency"),
    ],
)
def test_what_is_known_of_a_segment_decides_between_equals(asked: str, better: dict[str, Any], part: str) -> None:
    question = read_question(asked, ["Ada"])
    other = replace(PLAIN, speaker="Bob")
    good = replace(PLAIN, **better) if better else PLAIN
    base = other if part == "speaker" else PLAIN
    ranked = fused(question, found(words={"x": 1.0, "a": 1.0}), {"a": base, "x": good}, WEIGHTS, NOW)
    assert ranked[0].id == "x"
    assert part in ranked[0].parts
    assert part not in ranked[1].parts


def test_what_a_user_always_wants_counts_nothing_where_somebody_else_is_asked_about() -> None:
    wish = replace(PLAIN, wishes=True)
    [ranked] = fused(read_question("What does Bob like?", ["Bob"]), found(words={"a": 1.0}), {"a": wish}, WEIGHTS, NOW)
    assert "wishes" not in ranked.parts


def test_a_message_counts_by_all_that_was_found_of_it_and_not_by_its_best_segment_alone() -> None:
    long, short = replace(PLAIN, message="task-0-1/1/0"), replace(PLAIN, message="task-0-1/2/0")
    scores = found(words=dict.fromkeys("abcs", 1.0), around_words={"a": 1.0, "b": 0.1, "c": 0.1, "s": 0.8})
    facts = dict.fromkeys("abc", long) | {"s": short}
    ranked = {each.id: each.parts["around_words"] for each in fused(QUESTION, scores, facts, WEIGHTS, NOW)}
    assert ranked["s"] == pytest.approx(0.3 * 0.8)
    assert [ranked[name] for name in "abc"] == pytest.approx([0.3 * 0.4] * 3)


def test_segments_of_no_known_message_count_each_for_itself() -> None:
    scores = found(around_words={"a": 1.0, "b": 0.5})
    ranked = {
        each.id: each.parts["around_words"]
        for each in fused(QUESTION, scores, dict.fromkeys("ab", PLAIN), WEIGHTS, NOW)
    }
    assert ranked == {"a": pytest.approx(0.3), "b": pytest.approx(0.15)}


def test_the_first_hits_are_of_different_messages() -> None:
    long, short = replace(PLAIN, message="task-0-1/1/0"), replace(PLAIN, message="task-0-1/2/0")
    facts = dict.fromkeys("abc", long) | {"s": short, "n": PLAIN, "m": PLAIN}
    scores = found(words={"a": 1.0, "b": 0.9, "c": 0.8, "s": 0.6, "n": 0.55, "m": 0.5})
    most = highest_sum(QUESTION, WEIGHTS)
    spread = spread_over_messages(fused(QUESTION, scores, facts, WEIGHTS, NOW), facts, most)
    assert [each.id for each in spread] == ["a", "s", "n", "m", "b", "c"]
    assert [each.score for each in spread] == sorted((each.score for each in spread), reverse=True)
    assert all(sum(each.parts.values()) == pytest.approx(each.score * most) for each in spread)


def test_a_question_is_a_worse_answer_than_what_follows_it() -> None:
    asking = replace(PLAIN, asks=True)
    reply = replace(PLAIN, asked_before="q")
    scores = found(text={"q": 0.9, "r": 0.3, "x": 0.31, "y": 0.2}, words={"q": 5.0, "r": 1.0, "x": 1.0})
    assert order(QUESTION, scores, q=asking, r=reply, x=PLAIN, y=PLAIN)[:2] == ["q", "r"]
    assert order(QUESTION, found(words={"a": 1.0, "b": 0.9}), a=asking, b=PLAIN) == ["b", "a"]


def test_a_task_lifts_its_segments_and_the_graph_what_it_leads_to() -> None:
    elsewhere = replace(PLAIN, task="task-0-2")
    scores = found(words={"a": 1.0, "b": 1.0}, tasks={"task-0-2": 3.0})
    assert order(QUESTION, scores, a=PLAIN, b=elsewhere) == ["b", "a"]
    assert order(QUESTION, scores.with_graph({"c": 1.0}), a=PLAIN, b=elsewhere, c=PLAIN) == ["b", "c", "a"]


def test_older_memories_fade_and_none_is_of_the_future() -> None:
    month = 30 * 86_400_000
    facts = {name: replace(PLAIN, at_ms=NOW - age) for name, age in {"n": -month, "m": month, "o": 100 * month}.items()}
    ranked = fused(QUESTION, found(words=dict.fromkeys("nmo", 1.0)), facts, WEIGHTS, NOW)
    assert [segment.id for segment in ranked] == ["n", "m", "o"]
    assert [segment.parts["recency"] for segment in ranked[:2]] == [pytest.approx(0.05), pytest.approx(0.025)]


def test_what_has_no_facts_is_left_out() -> None:
    assert order(QUESTION, found(words={"gone": 9.0, "a": 1.0}), a=PLAIN) == ["a"]


def test_equal_scores_are_ordered_by_id() -> None:
    assert order(QUESTION, found(text=dict.fromkeys("cab", 0.5)), a=PLAIN, b=PLAIN, c=PLAIN) == ["a", "b", "c"]


@pytest.mark.parametrize("weights", [MEANING_WEIGHTS, LETTERS_WEIGHTS])
@pytest.mark.parametrize("seed", range(20))
def test_scores_are_between_0_and_1_and_do_not_depend_on_the_order_found(seed: int, weights: PartWeights) -> None:
    chance = Random(seed)
    names = [f"s{n}" for n in range(30)]

    def some(least: float, most: float) -> dict[str, float]:
        return {name: chance.uniform(least, most) for name in chance.sample(names, chance.randint(0, 30))}

    facts = {
        name: SegmentFacts(
            f"task-0-{chance.randint(1, 4)}",
            chance.choice([None, *names]),
            chance.choice(["Ada", "user"]),
            chance.random() < 0.5,
            chance.random() < 0.5,
            chance.random() < 0.5,
            NamesInText((), ()),
            chance.randint(0, 2 * NOW),
            chance.random(),
        )
        for name in names
    }
    tasks = {f"task-0-{n}": chance.uniform(0, 50) for n in range(3)}
    scores = FoundSegments(some(-1, 1), some(-1, 1), some(0, 40), some(0, 90), tasks, some(0, 1))
    question = read_question("When did I see Ada?", ["Ada"])
    ranked = fused(question, scores, facts, weights, NOW)
    assert {segment.id for segment in ranked} == {
        *scores.text,
        *scores.around,
        *scores.words,
        *scores.around_words,
        *scores.graph,
    }
    assert all(0 <= segment.score <= 1 for segment in ranked)
    without = replace(scores, graph={})
    assert fused(question, scores, facts, weights, NOW, fused(question, without, facts, weights, NOW)) == ranked
    turned = FoundSegments(*(dict(reversed(getattr(scores, part.name).items())) for part in fields(FoundSegments)))
    assert fused(question, turned, facts, weights, NOW) == ranked


def test_the_embedding_without_a_model_weighs_words_more() -> None:
    assert weights_for("simple-384") is LETTERS_WEIGHTS
    assert weights_for("all-MiniLM-L6-v2-int8-1") is MEANING_WEIGHTS
    assert LETTERS_WEIGHTS.text < LETTERS_WEIGHTS.words
    assert weights_for("simple-384", hurried=True) == replace(LETTERS_WEIGHTS, text=0.0)
    assert weights_for("all-MiniLM-L6-v2-int8-1", hurried=True) is MEANING_WEIGHTS, "there the vectors find"
