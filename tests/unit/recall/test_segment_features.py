"""What is written of a task's segments: facts, words, neighbours; what a longer transcript changes of it."""

import pytest

from pentad.shared.recall.proper_names import MOST_NAMES
from pentad.shared.recall.segment_features import around_vectors, features_of, task_terms
from pentad.shared.recall.terms import MOST_TERMS, terms_of
from pentad.shared.segments.segment import segments_of
from tests.unit.segments.transcripts import HOSTILE, WEATHER, answered, said

TALK = [said("When did you see Oslo?", at="2030-01-31T12:00:00.000Z"), answered("Last summer."), said("Thanks, bye")]


def test_facts_say_who_spoke_when_and_what_it_is() -> None:
    asked, told, bye = (each.facts for each in features_of(segments_of("t1", "task-0-1", TALK)))
    assert (asked.by_user, asked.asks, asked.dated, asked.asked_before) == (True, True, False, None)
    assert (told.by_user, told.asks, told.dated) == (False, False, True)
    assert told.asked_before == segments_of("t1", "task-0-1", TALK)[0].id
    assert (bye.asked_before, bye.names.sure, asked.names.sure) == (None, (), ("oslo",))
    assert (asked.task, asked.speaker, told.speaker) == ("task-0-1", "user", "assistant")
    assert asked.at_ms == 1_896_091_200_000


def test_words_around_are_those_of_the_neighbours_too() -> None:
    first, second, third = features_of(segments_of("t1", "task-0-1", TALK))
    assert set(second.around_words) == set(first.words) | set(second.words) | set(third.words)
    assert set(first.around_words) == set(first.words) | set(second.words)


def test_a_task_is_found_by_all_its_words_and_by_its_day() -> None:
    terms = task_terms(segments_of("t1", "task-0-1", TALK))
    assert set(terms_of("see Oslo last summer bye")) <= set(terms)
    assert set(terms_of("on 31 January 2030")) <= set(terms)
    assert task_terms([]) == {}


def test_a_longer_transcript_changes_only_what_is_said_around_its_old_end() -> None:
    short = list(features_of(segments_of("t1", "task-0-1", TALK)))
    long = list(features_of(segments_of("t1", "task-0-1", [*TALK, said("One more thing")])))
    assert long[: len(short) - 1] == short[:-1]
    assert (long[2].facts, long[2].words) == (short[2].facts, short[2].words)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_written_of_hostile_texts_is_bounded_and_the_same_each_time(text: str) -> None:
    segments = segments_of("t1", "task-0-1", [said(text)])[:20]
    written = list(features_of(segments))
    assert written == list(features_of(segments))
    assert len(task_terms(segments)) <= MOST_TERMS
    for each in written:
        assert len(each.around_words) <= MOST_TERMS
        assert len(each.facts.names.sure) + len(each.facts.names.perhaps) <= MOST_NAMES


def test_vectors_around_have_the_direction_of_the_mean() -> None:
    around = list(around_vectors([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    assert around == [[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]
    assert list(around_vectors([])) == []
    assert list(around_vectors([[0.6, 0.8]])) == [[0.6, 0.8]]


def test_vectors_that_cancel_each_other_leave_the_first() -> None:
    assert list(around_vectors([[1.0, 0.0], [-1.0, 0.0]])) == [[1.0, 0.0], [1.0, 0.0]]


def test_no_segments_are_written_as_nothing() -> None:
    assert list(features_of([])) == []
    assert len(list(features_of(segments_of("t1", "task-0-1", WEATHER)))) == 6
