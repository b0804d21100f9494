"""Tokens for a browser's EventSource, which cannot send an API key: for one session's events, and not for long.

A token is signed with its tenant's API key, so every gateway that knows the key knows the token, and nothing is kept.
"""

import hmac
from collections.abc import Mapping

LIFE_S = 300
"""Seconds until a token lets nobody in any more. A stream that has begun goes on."""
_MOST = 200
"""Characters of a token that is looked at."""


class EventTokens:
    """Issues and knows tokens. ``keys``: API key to tenant; without keys everybody is let in anyway."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]

    def issue(self, tenant: str, session: str, now: float) -> tuple[str, int]:
        """A token for a session, and when it ends, in seconds since the epoch."""
        key = next((key for key, owner in self._keys if owner == tenant), b"")
        end = int(now) + LIFE_S
        return f"{end}.{_signature(key, tenant, session, end)}", end

    def tenant(self, token: str, session: str, now: float) -> str | None:
        """Whose token it is; None when it is none, of another session, or over."""
        text, _, given = token[:_MOST].partition(".")
        end = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(int(now))) else 0
        if not now < end:
            return None
        found = None
        for key, tenant in self._keys:
            expected = _signature(key, tenant, session, end)
            if hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
                found = tenant
        return found


def _signature(key: bytes, tenant: str, session: str, end: int) -> str:
    said = f"pentad events 1\n{tenant}\n{session}\n{end}"
    return hmac.digest(key, said.encode("utf-8", "replace"), "sha256").hex()
