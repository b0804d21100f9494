"""Due times: the clock on the wall through both changes of clocks, in two zones, and what hostile schedules cost."""

import random
from time import monotonic
from typing import Any
from zoneinfo import available_timezones

import pytest

from pentad.contracts.ids import LAST_MS, milliseconds, rfc3339
from pentad.contracts.schedules import ScheduleSpec
from pentad.shared.schedules.due_times import DueTimes

NOW = milliseconds("2026-11-27T12:00:00Z")


def times(created: int = NOW, **fields: Any) -> DueTimes:
    return DueTimes(ScheduleSpec(content="x", **fields), created)


def following(due: DueTimes, start: str, count: int) -> list[str]:
    """The next due times, in UTC to the minute."""
    found, moment = list[str](), milliseconds(start)
    for _ in range(count):
        following = due.after(moment)
        assert following is not None
        assert following > moment
        found.append(rfc3339(following)[5:16])
        moment = following
    return found


@pytest.mark.parametrize(
    ("zone", "cron", "start", "due"),
    [
        # The hour that summer time leaves out: right behind the gap, once.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", ["03-29T01:00", "03-30T00:30"]),
        ("America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", ["03-08T07:00", "03-09T06:30"]),
        # The hour that comes twice: the first time alone.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", ["10-25T00:30", "10-26T01:30"]),
        ("America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", ["11-01T05:30", "11-02T06:30"]),
        ("Europe/Berlin", "0,30 2 * * *", "2026-10-25T00:30:00Z", ["10-26T01:00", "10-26T01:30"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T01:10:00Z", ["10-26T01:30"]),
        # The same time of day on both sides.
        ("Europe/Berlin", "0 9 * * *", "2026-03-28T00:00:00Z", ["03-28T08:00", "03-29T07:00"]),
        ("America/New_York", "0 9 * * *", "2026-10-31T00:00:00Z", ["10-31T13:00", "11-01T14:00"]),
        # What is due each hour is due each hour.
        ("Europe/Berlin", "30 * * * *", "2026-10-24T23:45:00Z", ["10-25T00:30", "10-25T01:30", "10-25T02:30"]),
        ("America/New_York", "30 * * * *", "2026-03-08T06:00:00Z", ["03-08T06:30", "03-08T07:30", "03-08T08:30"]),
        ("Europe/Berlin", "*/30 * * * *", "2026-03-29T00:15:00Z", ["03-29T00:30", "03-29T01:00", "03-29T01:30"]),
        # Half an hour, and midnight itself.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-02T16:00:00Z", ["10-03T15:30", "10-04T15:15"]),
        ("America/Sao_Paulo", "15 0 * * *", "2018-11-03T12:00:00Z", ["11-04T03:00", "11-05T02:15"]),
    ],
)
def test_a_time_of_day_is_due_once_a_day_through_changes_of_clocks(
    zone: str, cron: str, start: str, due: list[str]
) -> None:
    assert following(times(time_zone=zone, cron=cron), start, len(due)) == due


def test_a_year_of_days_has_as_many_due_times_in_every_zone() -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Africa/Cairo", "Asia/Kathmandu"):
        for cron in ("30 2 * * *", "0 0 * * *", "59 23 * * *"):
            due, moment, count = times(time_zone=zone, cron=cron), milliseconds("2026-01-01T12:00:00Z"), 0
            while (following := due.after(moment)) is not None and following <= milliseconds("2027-01-01T12:00:00Z"):
                moment, count = following, count + 1
            assert count == 365, (zone, cron)


def test_the_next_due_time_is_the_same_whenever_it_is_asked_for() -> None:
    """Between two due times nothing is due, in any zone and next to its changes of clocks: asked in between, it is the
    second one."""
    chance, zones = random.Random(58), sorted(available_timezones())
    near = ("2026-03-29T00:30:00Z", "2026-10-25T00:45:00Z", "2026-11-01T05:40:00Z", "2026-04-04T15:10:00Z")
    for _ in range(400):
        fields = [_field(chance, *bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 7))]
        cron, zone = " ".join(fields), chance.choice(zones)
        due, moment = times(cron=cron, time_zone=zone), milliseconds(chance.choice(near)) + chance.randrange(7_200_000)
        found = list[int]()
        while len(found) < 30 and (following := due.after(moment)) is not None:
            assert following > moment, (cron, zone)
            between = moment + chance.randrange(following - moment)
            assert due.after(between) == following, (cron, zone, rfc3339(between))
            found.append(following)
            moment = following
        assert not found or due.passed(found[0], moment, 10) == found[-len(due.passed(found[0], moment, 10)) :]


def _field(chance: random.Random, low: int, high: int) -> str:
    """A field of a cron expression."""
    first, last = sorted((chance.randint(low, high), chance.randint(low, high)))
    kinds = ("*", f"*/{chance.randint(1, high)}", f"{first}-{last}", f"{first},{last}", str(first))
    return chance.choice(kinds)


def test_every_counts_seconds_from_its_beginning_also_when_the_clock_has_stepped_before_it() -> None:
    due = times(every=90)
    assert due.after(NOW) == NOW + 90_000
    assert due.after(NOW + 89_999) == NOW + 90_000
    assert due.after(NOW + 90_000) == NOW + 180_000
    assert due.after(NOW - 100_000) == NOW - 90_000


@pytest.mark.parametrize(
    ("at", "zone", "due"),
    [
        ("2030-01-31T09:00:00Z", "Europe/Berlin", "2030-01-31T09:00:00.000Z"),
        ("2030-01-31T09:00", "Europe/Berlin", "2030-01-31T08:00:00.000Z"),
        ("2030-07-31T09:00:30", "Europe/Berlin", "2030-07-31T07:00:30.000Z"),
        ("2030-03-31T02:30", "Europe/Berlin", "2030-03-31T01:30:00.000Z"),
        ("2030-10-27T02:30", "Europe/Berlin", "2030-10-27T00:30:00.000Z"),
    ],
)
def test_a_single_time_is_of_its_zone_unless_it_says_another(at: str, zone: str, due: str) -> None:
    assert rfc3339(times(at=at, time_zone=zone).check(NOW, 60_000)) == due
    assert times(at=at, time_zone=zone).after(milliseconds(due)) is None


def test_what_has_passed_is_found_from_the_latest_on_without_counting_a_year_of_minutes() -> None:
    begun = monotonic()
    minutes, first = times(cron="* * * * *"), milliseconds("2025-01-01T00:00:00Z")
    found = minutes.passed(first, NOW, 24)
    assert 24 < len(found) < 100
    assert found[-1] == NOW
    assert found == sorted(found)
    daily = times(cron="0 3 * * *").passed(first, NOW, 24)
    assert len(daily) > 24
    assert times(cron="0 3 * * *").passed(daily[-2], NOW, 24) == daily[-2:]
    seldom = times(cron="0 0 1 1 *").passed(first, NOW, 24)
    assert seldom == [first, milliseconds("2026-01-01T00:00:00Z")]
    assert times(every=1).passed(first, NOW, 24)[-1] == NOW
    assert times(cron="* * * * *").passed(NOW + 1, NOW, 24) == []
    assert monotonic() - begun < 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cron": "* * * * * *"}, "five fields"),
        ({"cron": "*/5 * * *"}, "five fields"),
        ({"cron": "@daily"}, "five fields"),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "0 0 31 2 *"}, "Bad day-of-month"),
        ({"cron": "0 0 L-5 * *"}, "Bad day-of-month"),
        ({"cron": "0 0 * * ²L"}, "Bad day-of-week"),
        ({"cron": "1/2/3/x * * * *"}, "Bad minute"),
        ({"cron": f"{'1,' * 120}1 * * * \u2603"}, "Bad day-of-week"),
        ({"cron": "0 0 30 2 */8"}, "cron: "),
        ({"cron": "0 0 * 2 MON#5"}, "within ten years"),
        ({"cron": "* * * * *", "time_zone": "Mars/Olympus"}, "time zone 'Mars/Olympus' is unknown"),
        ({"cron": "* * * * *", "time_zone": "../../etc/passwd"}, "is unknown"),
        ({"cron": "* * * * *", "time_zone": "America"}, "is unknown"),
        ({"cron": "* * * * *", "time_zone": "a\0b"}, "is unknown"),
        ({"at": "2026-11-27T11:58:00Z"}, "has passed"),
        ({"at": "9999-12-31T23:59:59Z"}, "within ten years"),
        ({"at": "9999-12-31T23:59:59", "time_zone": "America/New_York"}, "at: "),
        ({"at": "2030-01-31"}, "at: it is not a time"),
        ({"at": "0001-01-01T00:00:00", "time_zone": "Asia/Tokyo"}, "at: |has passed"),
        ({"at": "tomorrow"}, "at: it is not a time"),
        ({"at": "2030-02-30T00:00:00Z"}, "no such time"),
        ({"every": 30}, "30 s apart, and must be 60 s"),
    ],
)
def test_what_is_never_due_or_too_often_is_refused_at_once(fields: dict[str, Any], says: str) -> None:
    begun = monotonic()
    with pytest.raises(ValueError, match=says):
        times(**fields).check(NOW, 60_000)
    assert monotonic() - begun < 0.5


def test_the_shortest_period_of_a_cron_is_looked_for() -> None:
    with pytest.raises(ValueError, match="60 s apart, and must be 600 s or more"):
        times(cron="0,1 3 * * *").check(NOW, 600_000)
    assert times(cron="*/10 * * * *").check(NOW, 600_000) == NOW + 600_000


def test_at_the_end_of_time_nothing_is_due() -> None:
    assert times(cron="0 0 1 1 *").after(LAST_MS - 1000) is None
