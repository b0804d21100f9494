"""Problems of Redis, as readiness and the log describe them."""

import logging
from collections.abc import Sequence
from time import monotonic

from redis.exceptions import RedisError

from pentad.shared.keys import PREFIX
from pentad.shared.store.key_kinds import strangers
from pentad.shared.store.refusals import REFUSALS, refusal_of, said, text_of
from pentad.shared.store.wire import Wire, Word
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))
_STANDS_S = 3.0
"""A refusal is true for this long after it was met: what is refused comes again, and reads between are served."""
_MAX_REFUSALS = 4
_NAMED = 64
"""Keys of one command that are looked at."""


class Trouble:
    """The last error of the connection, and what the server has refused lately."""

    def __init__(self) -> None:
        self.down: str | None = None
        """Why nothing is served; None as soon as something is."""
        self._down_since = 0.0
        self._refused: dict[str, float] = {}
        self.unfit: str | None = None
        """The change that a serving server needs; None when it needs none."""

    @property
    def text(self) -> str | None:
        """All of it on one line, or None."""
        if self._refused:
            limit = monotonic() - _STANDS_S
            self._refused = {text: at for text, at in self._refused.items() if at > limit}
        return "; ".join(self._refused) or self.down or self.unfit

    def note(self, error: Exception, words: str) -> str:
        """Keep an error in mind; returns it as it is said."""
        refusal = refusal_of(error)
        text = f"Redis is unavailable: {words}"
        if refusal is not None:
            if refusal.to_mend:
                _say.error(text, "%s", text)
            return self.refuse(text)
        if self.down is None:
            self._down_since = monotonic()
        self.down = text
        return text

    def refuse(self, text: str) -> str:
        """Keep what was refused in mind for a while; returns it."""
        if text in self._refused or len(self._refused) < _MAX_REFUSALS:
            self._refused[text] = monotonic()
        return text

    def over(self) -> None:
        """Note that Redis has served a command again."""
        _say.warning("over", "Redis serves again, after %.1f s", monotonic() - self._down_since)
        self.down = None


async def explained(error: Exception, command: Sequence[Word], wire: Wire) -> str:
    """An error with what is waited for, and the keys that it is about."""
    keys = list(dict.fromkeys(w for w in command if isinstance(w, str) and w.startswith(PREFIX)))[:_NAMED]
    text = text_of(error)
    if text.startswith("WRONGTYPE"):
        return said(error, "; ".join(await _strangers(keys, wire)))
    if refusal_of(error) is REFUSALS["NOPERM"]:
        return said(error, f"{command[0]!s} {' '.join(keys)}".strip())
    return said(error)


async def _strangers(keys: Sequence[str], wire: Wire) -> list[str]:
    try:
        kinds = await wire.ask_all([("TYPE", key) for key in keys])
    except (RedisError, OSError):
        return list(keys)
    return strangers({key: kind.decode() for key, kind in zip(keys, kinds, strict=True)})
