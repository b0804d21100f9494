"""Identifiers, shards and times."""

from zlib import crc32

import pytest

from pentad.contracts.ids import is_identifier, milliseconds, rfc3339, shard_in, shard_of, task_id, tool_call_id


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
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01t00:00:01z", 1000),
        ("1970-01-01 00:00:01Z", 1000),
        ("1969-12-31T23:59:59.999-00:00", -1),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("9999-12-31T23:59:59.9999Z", 253_402_300_799_999),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
    ],
)
def test_other_writings_of_a_time(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("soon", "not a time of RFC 3339", id="no time"),
        pytest.param("1970-01-01T00:00:00", "no time zone", id="no zone"),
        pytest.param("20260101T000000Z", "not a time of RFC 3339", id="the basic form"),
        pytest.param("2026-W01-1T00:00:00Z", "not a time of RFC 3339", id="a week date"),
        pytest.param("2026-001T00:00:00Z", "not a time of RFC 3339", id="a day of the year"),
        pytest.param("2026-01-01", "not a time of RFC 3339", id="a date alone"),
        pytest.param("2026-01-01T00:00Z", "not a time of RFC 3339", id="no seconds"),
        pytest.param("2026-01-01T00:00:00,5Z", "not a time of RFC 3339", id="a comma"),
        pytest.param("2026-01-01T00:00:00+0100", "not a time of RFC 3339", id="a zone without colon"),
        pytest.param("2026-01-01T00:00:00+01", "not a time of RFC 3339", id="a zone without minutes"),
        pytest.param("2026-01-01T00:00:00+01:00:30", "not a time of RFC 3339", id="a zone with seconds"),
        pytest.param("2026-01-01T00:00:00+24:00", "no such time", id="a zone that is none"),
        pytest.param("2026-01-01_00:00:00Z", "not a time of RFC 3339", id="another separator"),
        pytest.param("2026-02-30T00:00:00Z", "no such time", id="no such day"),
        pytest.param("2016-12-31T23:59:60Z", "no such time", id="a leap second"),
        pytest.param("9999-12-31T23:59:59.999-14:00", "after the year 9999", id="the year 10000 in UTC"),
        pytest.param("２０２６-01-01T00:00:00Z", "not a time of RFC 3339", id="other digits"),
        pytest.param("2026-01-01T00:00:00Z\n", "not a time of RFC 3339", id="a line break"),
    ],
)
def test_what_is_no_time_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        milliseconds(text)


def test_a_time_in_words_has_milliseconds() -> None:
    assert rfc3339(1_234) == "1970-01-01T00:00:01.234Z"
