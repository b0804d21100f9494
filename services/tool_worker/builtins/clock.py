"""Tells the current time."""

from collections.abc import Callable
from datetime import datetime

from pentad.contracts.dates import zone_of


def clock_of(zone: str) -> Callable[..., str]:
    """The tool ``current_time`` that tells the time of this zone when it is asked for no other."""

    def current_time(timezone: str = zone) -> str:
        """The current date and time in ISO 8601.

        Args:
            timezone: IANA name such as Europe/Berlin or Asia/Shanghai.
        """
        return datetime.now(zone_of(timezone)).isoformat(timespec="milliseconds")

    return current_time
