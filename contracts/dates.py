"""Which day it is in a time zone, and how a model is told."""

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo

from pentad.contracts.envelope import Contract


class LocalDate(Contract):
    """A day, and the time zone in which it is that day."""

    date: date
    time_zone: str
    """An IANA name."""

    @classmethod
    def of(cls, at_ms: int, time_zone: str) -> "LocalDate":
        """The day at this time, in ms since the epoch. Raises ``ValueError`` for an unknown zone."""
        return cls(date=datetime.fromtimestamp(at_ms / 1000, zone_of(time_zone)).date(), time_zone=time_zone)

    @property
    def told(self) -> str:
        """The end of a system prompt: the same words all day long, so that a model server's cache serves them."""
        return f"\n\nToday is {self.date:%A}, {self.date.isoformat()} (time zone {self.time_zone})."


def zone_of(name: str) -> tzinfo:
    """The time zone of an IANA name. Raises ``ValueError``."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, a folder of the database
        raise ValueError(f"time zone {name!r} is unknown: give an IANA name such as Europe/Berlin") from None
