"""Who may come in: API keys, tokens for events, and on the open loopback gateway only pages and names of this machine.

A token is for a browser's EventSource, which cannot send an API key: for one session's events, and not for long. It is
signed with its tenant's API key, so every gateway that knows the key knows the token, and nothing is kept.
"""

import hmac
from collections.abc import Collection, Mapping, Sequence

from pentad.contracts.ids import DEFAULT_TENANT
from pentad.services.gateway.edge.problems import ProblemError, bad
from pentad.shared.immutable import immutable
from pentad.shared.service.http import Headers, why_foreign

PROTOCOL = "pentad.v1"
_KEY_PROTOCOL = "bearer."


LIFE_S = 300
"""Seconds until a token lets nobody in any more. A stream that has begun goes on."""
_MOST = 200
"""Characters of a token that is looked at."""


@immutable
class Caller:
    """Who is asking."""

    tenant: str | None
    """None for who holds the admin key, which is no tenant's."""
    admin: bool
    """Whether the operator's routes are open."""


class Access:
    """The rules of one gateway. Without keys there is one open tenant, and without an admin key it may do all: what
    starts a gateway makes one then (``with_operator_key``).

    ``origins``: of sites whose pages may talk to it also where it is open.
    """

    def __init__(
        self, keys: Mapping[str, str], admin_key: str | None = None, origins: Collection[str] = frozenset()
    ) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]
        self._origins = origins
        self._admin_key = None if admin_key is None else admin_key.encode()

    def check_site(self, headers: Headers) -> None:
        """Refuse what another site's page, or a name that was bound to this machine, sends (403)."""
        if not self._keys and (why := why_foreign(headers, self._origins)) is not None:
            raise ProblemError(403, why)

    def caller(self, headers: Headers, protocols: Sequence[str] = ()) -> Caller:
        """Who is behind a request. Raises ``ProblemError`` (401; 400 for two who say who they are)."""
        offered = [p.removeprefix(_KEY_PROTOCOL) for p in protocols if p.startswith(_KEY_PROTOCOL)]
        told = [value for name, value in headers if name == b"authorization"]
        if len(told) > 1:
            raise bad("there are two `Authorization` headers: which of them counts is for nobody to guess")
        for value in told:
            scheme, _, key = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                offered.insert(0, key.strip())
        given = offered[0].encode("latin-1", "replace") if offered else b""
        admin = self._admin_key is not None and hmac.compare_digest(self._admin_key, given)
        if not self._keys:
            return Caller(DEFAULT_TENANT, admin or self._admin_key is None)
        if admin:
            return Caller(None, admin=True)
        tenant = self._tenant_of(given) if given else None
        if tenant is None:
            raise ProblemError(401, "give one of the gateway's API keys as `Authorization: Bearer KEY`")
        return Caller(tenant, admin=False)

    def tenant(self, headers: Headers, protocols: Sequence[str] = ()) -> str:
        """The tenant behind a request. Raises ``ProblemError`` (401), also for the admin key."""
        tenant = self.caller(headers, protocols).tenant
        if tenant is None:
            raise ProblemError(401, "the admin key is no tenant's: use one of the gateway's API keys")
        return tenant

    def _tenant_of(self, offered: bytes) -> str | None:
        """Compares with every key, each in constant time."""
        found = None
        for key, tenant in self._keys:
            if hmac.compare_digest(key, offered):
                found = tenant
        return found


def chosen_protocol(offered: Sequence[str]) -> str | None:
    """The WebSocket subprotocol that the server selects."""
    return PROTOCOL if PROTOCOL in offered else None


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
