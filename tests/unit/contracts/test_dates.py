"""Prompts end with the day where the person is, and bad names of zones are refused with what to give."""

from datetime import date

import pytest
from pydantic import ValidationError

from pentad.contracts.dates import LocalDate, minute_at
from pentad.shared.errors import SettingsError
from pentad.shared.settings import Settings, load_settings

NEW_YEARS_EVE_23 = 1_798_758_000_000
"""2026-12-31T23:00Z."""


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("UTC", date(2026, 12, 31)),
        ("Asia/Shanghai", date(2027, 1, 1)),
        ("Europe/Berlin", date(2027, 1, 1)),
        ("America/New_York", date(2026, 12, 31)),
    ],
)
def test_the_day_is_that_of_the_zone(zone: str, day: date) -> None:
    assert LocalDate.of(NEW_YEARS_EVE_23, zone).date == day


def test_a_model_is_told_the_weekday_the_date_and_the_zone() -> None:
    told = LocalDate.of(NEW_YEARS_EVE_23, "Asia/Shanghai").told
    assert told == "\n\nToday is Friday, 2027-01-01 (time zone Asia/Shanghai)."


def test_a_minute_is_told_with_its_day_and_its_zone() -> None:
    at = NEW_YEARS_EVE_23 + 59_999
    assert minute_at(at, "Asia/Kolkata") == "Friday, 2027-01-01 04:30 (time zone Asia/Kolkata)"
    assert minute_at(at + 1, "UTC") == "Thursday, 2026-12-31 23:01 (time zone UTC)"


@pytest.mark.parametrize(
    ("set_to", "zone"), [("", "UTC"), ("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo"), (None, "UTC")]
)
def test_the_zone_of_the_environment_is_that_of_prompts(set_to: str | None, zone: str) -> None:
    assert load_settings({} if set_to is None else {"TZ": set_to}).time_zone == zone


def test_our_own_variable_goes_before_that_of_all_programs() -> None:
    assert load_settings({"PENTAD_TZ": "Asia/Tokyo", "TZ": "Europe/Berlin"}).time_zone == "Asia/Tokyo"
    assert load_settings({"PENTAD_TZ": "", "TZ": "Europe/Berlin"}).time_zone == "Europe/Berlin"


@pytest.mark.parametrize("variable", ["TZ", "PENTAD_TZ"])
@pytest.mark.parametrize("name", ["Mars/Base", "../etc/passwd", "/etc/localtime", "Europe", "x" * 5000, "a\0b"])
def test_a_zone_that_is_none_is_refused_with_what_to_give(name: str, variable: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{variable} is wrong.*IANA name such as Europe/Berlin"):
        load_settings({variable: name})
    with pytest.raises(ValidationError):
        Settings(tz=name)
