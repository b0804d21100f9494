"""A task as segments: by type, each with its anchor, the same whenever it is archived."""

from typing import Any

import pytest

from pentad.contracts.records import SegmentType
from pentad.shared.segments.anchors import BadAnchorError, anchor_of, anchor_text
from pentad.shared.segments.expansion import MOST_AROUND, expanded
from pentad.shared.segments.segment import MOST_OF_TASK, MOST_OF_TEXT, Segment, segments_of
from tests.unit.segments.transcripts import AT, HOSTILE, WEATHER, answered, calling, result, said

LONG = "The weather of the island changes within an hour. " * 60


def cut(messages: list[dict[str, Any]]) -> list[Segment]:
    return segments_of("t1", "task-0-1", messages)


def test_each_type_of_text_is_a_segment_with_its_place() -> None:
    found = [(s.anchor.type, s.anchor.position, s.anchor.part, s.anchor.step, s.speaker, s.text) for s in cut(WEATHER)]
    assert found == [
        (SegmentType.USER_MESSAGE, 1, 0, 0, "ada", "Which is hotter, Beijing or Shanghai?"),
        (SegmentType.REASONING, 2, 0, 1, "assistant", "I look it up."),
        (SegmentType.TOOL_CALL, 2, 1, 1, "assistant", 'weather {"city":"Beijing"}'),
        (SegmentType.TOOL_CALL, 2, 2, 1, "assistant", "weather {}"),
        (SegmentType.TOOL_RESULT, 3, 0, 1, "tool", '{"celsius":31}'),
        (SegmentType.RESPONSE, 4, 0, 2, "assistant", "Shanghai is hotter."),
    ]


def test_a_segment_belongs_to_the_user_whose_turn_it_is() -> None:
    turns = [*WEATHER, said("And Rome?"), answered("Rome."), said("Paris?", user_id="bob", name="Bob"), answered("No.")]
    assert [s.holder for s in cut(turns)] == ["ada"] * 6 + [None] * 2 + ["bob"] * 2
    assert [s.speaker for s in cut(turns)[-2:]] == ["Bob", "assistant"]


def test_nothing_that_was_not_said_to_the_task_is_a_segment() -> None:
    unsaid = [
        said("earlier in the session", origin="context"),
        said("Quoted from memory: the cat is called Ada.", origin="recalled"),
        answered("an earlier answer", origin="context"),
        answered(None, tool_calls=[calling("memory_search", '{"query":"cat"}')]),
        result("the cat is called Ada", origin="recalled"),
        said("Answer in JSON.", origin="repair"),
        {"role": "system", "content": "You are helpful.", "at": AT},
    ]
    assert cut(unsaid) == []


def test_a_message_that_was_moved_away_is_no_segment_and_the_rest_keeps_its_ids() -> None:
    kept = [said("one"), answered("two"), said("three"), answered("four")]
    moved = [*kept, {"role": "exclusion", "positions": [0, 1], "to": "new", "to_task_id": "task-0-2"}]
    assert cut(moved) == cut(kept)[2:]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_make_bounded_segments_whose_anchors_open(text: str) -> None:
    messages = [said(text), answered(None, tool_calls=[calling("f", text)]), result(text)]
    found = cut(messages)
    assert len(found) <= 3 * MOST_OF_TEXT
    assert len({segment.id for segment in found}) == len(found)
    for segment in found[:3] + found[-3:]:
        opened = expanded("t1", anchor_of(anchor_text(segment.anchor)), messages)
        assert opened.focus == segment


def test_archiving_again_gives_the_same_and_a_longer_transcript_only_adds() -> None:
    longer = [*WEATHER, said(LONG), answered(LONG), *WEATHER[1:]]
    whole = cut(longer)
    assert whole == cut(longer)
    for length in range(len(longer)):
        part = cut(longer[:length])
        assert part == whole[: len(part)]


def test_ids_of_tenants_and_tasks_differ() -> None:
    names = {s.id for t in ("t1", "t2") for k in ("task-0-1", "task-0-2") for s in segments_of(t, k, WEATHER)}
    assert len(names) == 4 * 6


def test_a_users_longest_message_is_searched_whole_and_a_task_is_bounded() -> None:
    longest = "word " * 13_107
    assert sum(len(s.text) + 1 for s in cut([said(longest)])) == len(longest)
    assert len(cut([said("x" * 1_000_000)])) == MOST_OF_TEXT
    assert len(cut([said("yes")] * (MOST_OF_TASK + 10))) == MOST_OF_TASK


@pytest.mark.parametrize("at", ["", None, "yesterday", "2030-13-01T00:00:00Z", "x" * 1_000])
def test_a_time_that_cannot_be_read_is_none(at: str | None) -> None:
    [segment] = cut([{"role": "user", "content": "hello", "at": at}])
    assert segment.anchor.at == ""


def test_an_anchor_opens_the_very_words_with_what_stands_around_them() -> None:
    messages = [*WEATHER, said(LONG)]
    segments = cut(messages)
    for at, segment in enumerate(segments):
        opened = expanded("t1", segment.anchor, messages, window=3)
        assert opened.focus == segment
        assert opened.before == tuple(segments[max(0, at - 3) : at])
        assert opened.after == tuple(segments[at + 1 : at + 4])
    text = messages[segments[-1].anchor.position]["content"]
    assert text[segments[-1].anchor.start : segments[-1].anchor.end] == segments[-1].text


@pytest.mark.parametrize(("window", "shown"), [(-5, 0), (0, 0), (10**9, MOST_AROUND)])
def test_what_stands_around_is_bounded(window: int, shown: int) -> None:
    messages = [said(f"number {n}") for n in range(200)]
    opened = expanded("t1", cut(messages)[100].anchor, messages, window)
    assert (len(opened.before), len(opened.after)) == (shown, shown)


def test_an_anchor_does_not_open_what_is_not_there() -> None:
    anchor = cut(WEATHER)[-1].anchor
    excluded = [*WEATHER, {"role": "exclusion", "positions": [4], "to": "new", "to_task_id": "task-0-2"}]
    for messages in ([], WEATHER[:4], [*WEATHER[:4], answered("Another.")], excluded):
        with pytest.raises(BadAnchorError, match="not in task task-0-1 any more"):
            expanded("t1", anchor, messages)
