"""A finished task as points: what is kept is read again as it was, each owner has his own, bounds hold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pentad.shared.memory.points import (
    FIRST_OF_TASK,
    SEGMENT_KIND,
    TASK_KIND,
    CutTask,
    cut_task,
    facts_of,
    points_of,
    texts_of,
)
from pentad.shared.owners import Owner
from pentad.shared.recall.segment_features import features_of
from pentad.shared.recall.terms import terms_of
from pentad.shared.segments.anchors import anchor_of, task_point_id
from pentad.shared.segments.segment import segments_of
from pentad.shared.vectors.limits import check_points
from pentad.shared.vectors.points import Dense, Point, Sparse
from tests.unit.segments.transcripts import HOSTILE, WEATHER, answered, said

TALK = [said("When did you see Oslo?"), answered("Last summer."), said("Thanks, Ada Byron")]
BOTH = [
    said("My code is swordfish", user_id="ada"),
    answered("Kept."),
    said("The boat is green", user_id="bob"),
    answered("Noted.", step=2),
    said("It is windy"),
]


def cut(messages: Sequence[dict[str, Any]]) -> CutTask:
    return cut_task("t1", "task-0-1", "s1", messages)


def points(messages: Sequence[dict[str, Any]]) -> list[Point]:
    task = cut(messages)
    return points_of(task, [[1.0, float(n)] for n in range(len(task.segments))])


def tasks_among(made: Sequence[Point]) -> list[Point]:
    return [point for point in made if point.payload.kind == TASK_KIND]


def segments_among(made: Sequence[Point]) -> list[Point]:
    return [point for point in made if point.payload.kind == SEGMENT_KIND]


@pytest.mark.parametrize("messages", [TALK, WEATHER[:1] + WEATHER[2:]])
def test_facts_are_read_from_a_point_as_they_were_written(messages: Sequence[dict[str, Any]]) -> None:
    written = features_of(segments_of("t1", "task-0-1", messages))
    assert [facts_of(point.payload) for point in segments_among(points(messages))] == [each.facts for each in written]


def test_a_wish_and_a_message_are_read_from_a_point_as_they_were_written() -> None:
    made = segments_among(
        points([said("Always answer in French. " + "I live in Bergen with my cats. " * 60), answered("Always.")])
    )
    facts = [facts_of(point.payload) for point in made]
    assert len(made) > 3
    assert [each.wishes for each in facts] == [True, *[False] * (len(made) - 1)]
    assert len({each.message for each in facts[:-1]}) == 1
    assert facts[-1].message not in {"", facts[0].message}


def test_a_long_text_that_an_earlier_version_took_for_a_question_says_something() -> None:
    [point] = segments_among(points([said("I live in Bergen with my cats. " * 10 + "Can you help?")]))
    earlier = replace(point.payload, details={**point.payload.details, "asks": True})
    assert not facts_of(earlier).asks


def test_a_point_has_its_text_its_place_and_an_anchor_that_opens() -> None:
    first, second, _ = segments_among(points(TALK))
    assert (first.payload.text, first.payload.type, first.payload.position) == (TALK[0]["content"], "user_message", 0)
    assert (second.payload.task, second.payload.session, second.payload.position) == ("task-0-1", "s1", 1)
    assert anchor_of(second.payload.anchor).position == 1
    assert first.dense[Dense.TEXT] == (1.0, 0.0)


def test_names_are_terms_of_their_own_and_change_no_word() -> None:
    plain = features_of(segments_of("t1", "task-0-1", TALK))
    for point, each in zip(segments_among(points(TALK)), plain, strict=True):
        words = dict(zip(point.sparse[Sparse.WORDS].indices, point.sparse[Sparse.WORDS].values, strict=True))
        assert words.items() >= each.words.items()
        assert len(words) == len(each.words) + len(each.facts.names.sure) + len(each.facts.names.perhaps)


def test_a_task_has_a_point_with_all_its_words() -> None:
    [task] = tasks_among(points(TALK))
    assert task.id == task_point_id("t1", "task-0-1")
    assert set(terms_of("see Oslo last summer thanks")) <= set(task.sparse[Sparse.TASK_WORDS].indices)
    assert not task.dense
    assert task.payload.at == 1_896_091_200_000


def test_what_is_made_of_one_users_words_is_his_alone() -> None:
    made = points(BOTH)
    secret = set(terms_of("swordfish"))
    knowing = [point for point in made if any(secret & set(terms.indices) for terms in point.sparse.values())]
    assert {point.payload.owner for point in knowing} == {Owner("t1", "ada")}
    assert {point.payload.owner for point in made} == {Owner("t1", "ada"), Owner("t1", "bob"), Owner("t1")}
    assert [point.payload.type for point in tasks_among(made)].count(FIRST_OF_TASK) == 1
    assert len({point.id for point in made}) == len(made) == 5 + 3


def test_the_same_task_gives_the_same_points_and_a_longer_one_the_same_ids() -> None:
    assert points(TALK) == points(TALK)
    assert {point.id for point in points(TALK)} < {point.id for point in points([*TALK, said("One more thing")])}


def test_a_task_in_which_nothing_was_said_has_no_points() -> None:
    assert points([]) == points([said("...")]) == []
    assert texts_of(cut([])) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_points_of_hostile_texts_can_be_kept(text: str) -> None:
    made = points([said(text, name=text[:1000]), answered(text)])
    for begin in range(0, len(made), 256):
        check_points(made[begin : begin + 256])
    kept = segments_among(made)
    assert {len(facts_of(point.payload).speaker) <= 128 for point in kept} <= {True}
    assert [len(point.payload.text) for point in kept] == [
        len(each) for each in texts_of(cut([said(text), answered(text)]))
    ]
