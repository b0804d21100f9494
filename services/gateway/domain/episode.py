"""Reading of requests to store an episode: words that are remembered as if they had been said in a task. Pure."""

from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, LAST_MS, is_external_id, milliseconds, rfc3339
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

MOST_CHARS = 65_536
"""Characters that an episode may have, as many as a message."""
_FIELDS = ("text", "user_id", "at")


@immutable
class EpisodeToKeep:
    """A request to store words that were said elsewhere."""

    text: str
    user: str | None
    """User who said the words; None: the whole tenant shares them."""
    at: str | None
    """Time at which the words were said: RFC 3339; None: now."""


def read_episode(body: Mapping[str, Any]) -> EpisodeToKeep:
    """Read a client's request to store an episode. Raises ``UnreadableError``."""
    if unknown := sorted(body.keys() - set(_FIELDS)):
        raise UnreadableError(f"{unknown[0][:64]!r} is none of {', '.join(_FIELDS)}")
    text, user = body.get("text"), body.get("user_id")
    if not isinstance(text, str) or len(text) > MOST_CHARS or not any(map(str.isalnum, text)):
        raise UnreadableError(f"text: 1 to {MOST_CHARS} characters with a letter or digit are expected")
    if user is not None and not (isinstance(user, str) and is_external_id(user)):
        raise UnreadableError(f"user_id: an id of {EXTERNAL_ID_RULE} is expected")
    return EpisodeToKeep(text, user, None if body.get("at") is None else _time(body["at"]))


def _time(given: Any) -> str:
    try:
        moment = milliseconds(given if isinstance(given, str) else "")
    except ValueError:
        moment = -1
    if not 0 <= moment <= LAST_MS:
        raise UnreadableError("at: a time of RFC 3339 since 1970 is expected")
    return rfc3339(moment)
