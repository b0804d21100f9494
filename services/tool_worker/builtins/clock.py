"""Tells the current time."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo

from pentad.contracts.dates import zone_of

_OFFSET = re.compile(r"(?:utc|gmt)?\s*([+-])\s*(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE | re.ASCII)
_MAX_OFFSET_HOURS = 14
_CITY = re.compile(r"[A-Za-z][A-Za-z' -]{0,40}")
_AREAS = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
"""First parts of IANA names under which cities stand."""


def clock_of(zone: str) -> Callable[..., str]:
    """The tool ``get_time`` that tells the time of this zone when it is asked for no other."""

    def get_time(timezone: str = zone) -> str:
        """The current date and time in ISO 8601.

        Args:
            timezone: IANA name such as Europe/Berlin or Asia/Shanghai, or an offset such as UTC+8.
        """
        return datetime.now(_zone_said(timezone)).isoformat(timespec="milliseconds")

    return get_time


def _zone_said(said: str) -> tzinfo:
    """Return the zone that a model means: an IANA name in any case, its city alone, or an offset.

    Raises ``ValueError``.
    """
    name = said.strip()
    if (offset := _OFFSET.fullmatch(name)) is not None:
        return _at_offset(said, offset)
    city = name.replace(" ", "_")
    for tried in (name, city.title(), *(f"{area}/{city.title()}" for area in _AREAS if _CITY.fullmatch(name))):
        with suppress(ValueError):
            return zone_of(tried)
    raise ValueError(
        f"time zone {said[:100]!r} is unknown: give an IANA name such as Europe/Berlin, or an offset such as UTC+8"
    )


def _at_offset(said: str, offset: re.Match[str]) -> tzinfo:
    ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    if ahead > timedelta(hours=_MAX_OFFSET_HOURS):
        raise ValueError(f"time zone {said[:100]!r} is unknown: offsets go from UTC-14 to UTC+14")
    return timezone(ahead if offset[1] == "+" else -ahead)
