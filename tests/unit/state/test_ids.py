"""Identifiers, shards and times."""

from zlib import crc32

import pytest

from contracts.ids import is_identifier, milliseconds, rfc3339, shard_in, shard_of, task_id, tool_call_id


@pytest.mark.parametrize("text", ["a", "7", "a.b_c~d@e-f", "x" * 128])
def test_what_may_be_a_name(text: str) -> None:
    assert is_identifier(text)


@pytest.mark.parametrize("text", ["", "-a", ".a", "a b", "a/b", "a:b", "é", "a\n", "{a}", "x" * 129])
def test_what_may_not(text: str) -> None:
    assert not is_identifier(text)


@pytest.mark.parametrize("shards", [1, 2, 7, 1024])
def test_a_session_lives_where_its_crc_says(shards: int) -> None:
    assert shard_of("t", "s", shards) == crc32(b"t/s") % shards


def test_ours_say_their_shard() -> None:
    assert shard_in(task_id(3, "x"), 8) == 3
    assert shard_in(tool_call_id(7, "x"), 8) == 7


@pytest.mark.parametrize("text", ["task-8-x", "task--x", "task-x", "other-1-x", "task-12345-x", "", "xtask-1-x"])
def test_what_is_not_ours_names_no_shard(text: str) -> None:
    assert shard_in(text, 8) is None


@pytest.mark.parametrize("ms", [0, 1, 999, 1_900_000_000_123])
def test_times_come_back_as_they_went(ms: int) -> None:
    assert milliseconds(rfc3339(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-01T00:00:00.5Z", 500)],
)
def test_other_writings_of_a_time(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(("text", "why"), [("1970-01-01T00:00:00", "time zone"), ("soon", "isoformat")])
def test_what_is_no_time_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        milliseconds(text)


def test_a_time_in_words_has_milliseconds() -> None:
    assert rfc3339(1_234) == "1970-01-01T00:00:01.234Z"
