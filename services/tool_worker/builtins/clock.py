"""What time it is."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo


def current_time(timezone: str = "UTC") -> str:
    """The current date and time in ISO 8601.

    Args:
        timezone: IANA name such as Europe/Berlin or Asia/Shanghai.
    """
    return datetime.now(_zone(timezone)).isoformat(timespec="milliseconds")


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, a folder of the database
        raise ValueError(f"timezone {name!r} is unknown: give an IANA name such as Europe/Berlin") from None
