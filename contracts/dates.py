"""The current day in a time zone, and the words in which a model is told it."""

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo

from pentad.contracts.envelope import Contract


class LocalDate(Contract):
    """A day together with its time zone."""

    date: date
    time_zone: str
    """IANA name of the time zone."""

    @classmethod
    def of(cls, at_ms: int, time_zone: str) -> "LocalDate":
        """Return the day at a time in milliseconds since the epoch. Raises ``ValueError`` for an unknown zone."""
        return cls(date=datetime.fromtimestamp(at_ms / 1000, zone_of(time_zone)).date(), time_zone=time_zone)

    @property
    def words(self) -> str:
        """The day with its weekday and time zone: the same words all day long, so that model servers can cache them."""
        return f"{self.date:%A}, {self.date.isoformat()} (time zone {self.time_zone})"

    @property
    def told(self) -> str:
        """The end of a system prompt that does not say the day itself."""
        return f"\n\nToday is {self.words}."


def minute_at(at_ms: int, time_zone: str) -> str:
    """Return the minute of a time in milliseconds since the epoch, in words like those of `LocalDate`. Raises
    ``ValueError`` for an unknown zone."""
    at = datetime.fromtimestamp(at_ms / 1000, zone_of(time_zone))
    return f"{at:%A}, {at.date().isoformat()} {at:%H:%M} (time zone {time_zone})"


def zone_of(name: str) -> tzinfo:
    """Return the time zone of an IANA name. Raises ``ValueError`` for an unknown name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, a folder of the database
        raise ValueError(f"time zone {name!r} is unknown: give an IANA name such as Europe/Berlin") from None
