"""Reading of requests to open an anchor. Pure."""

from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable
from pentad.shared.segments.expansion import MOST_AROUND

WINDOW_DEFAULT = 2


@immutable
class Expansion:
    """A request to open an anchor with a number of segments on each side."""

    anchor: str
    window: int
    user: str | None = None
    session: str | None = None
    """Session whose memories are shown. If a user or a session is given, only segments that they may see are shown."""
    whole: bool = False
    """Whether the whole task is shown, too."""


def read_expansion(body: Mapping[str, Any]) -> Expansion:
    """Read a client's request to open an anchor. Raises ``UnreadableError``."""
    anchor, window = body.get("anchor"), body.get("window", WINDOW_DEFAULT)
    if not isinstance(anchor, str):
        raise UnreadableError("anchor: the `anchor` of a memory hit is expected")
    if not isinstance(window, int) or isinstance(window, bool) or not 0 <= window <= MOST_AROUND:
        raise UnreadableError(f"window: a number from 0 to {MOST_AROUND} is expected")
    whole = body.get("whole", False)
    if not isinstance(whole, bool):
        raise UnreadableError("whole: true or false is expected")
    return Expansion(anchor, window, _name(body, "user_id"), _name(body, "session_id"), whole)


def _name(body: Mapping[str, Any], field: str) -> str | None:
    name = body.get(field)
    if name is not None and not (isinstance(name, str) and is_external_id(name)):
        raise UnreadableError(f"{field}: an id of {EXTERNAL_ID_RULE} is expected")
    return name
