"""What a client says to open an anchor. Pure."""

from collections.abc import Mapping
from typing import Any

from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable
from pentad.shared.segments.expanding import MOST_AROUND

WINDOW_DEFAULT = 2


@immutable
class Expansion:
    """An anchor, and how many segments are wanted on each side."""

    anchor: str
    window: int


def read_expansion(body: Mapping[str, Any]) -> Expansion:
    """As a client writes it. Raises ``UnreadableError``."""
    anchor, window = body.get("anchor"), body.get("window", WINDOW_DEFAULT)
    if not isinstance(anchor, str):
        raise UnreadableError("anchor: the `anchor` of a memory hit is expected")
    if not isinstance(window, int) or isinstance(window, bool) or not 0 <= window <= MOST_AROUND:
        raise UnreadableError(f"window: a number from 0 to {MOST_AROUND} is expected")
    return Expansion(anchor, window)
