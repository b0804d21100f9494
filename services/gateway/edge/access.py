"""Access to the gateway: API keys, event tokens, and the check of sites and host names on an open loopback gateway.

A token lets a browser's EventSource, which cannot send an API key, follow the events of one session for a short time.
It is signed with its tenant's API key, so that every gateway with that key can verify it, and no token is stored.
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
"""Seconds for which a token is valid. A stream that has begun goes on after that."""
_MAX_TOKEN_CHARS = 200
"""Characters of a token that are read."""


@immutable
class Caller:
    """The sender of a request."""

    tenant: str | None
    """Tenant of the caller; None for the holder of the admin key, which belongs to no tenant."""
    admin: bool
    """Whether the caller may use the operator's routes."""


class Access:
    """The access rules of one gateway.

    Without API keys everybody is the default tenant, and if there is no admin key either, everybody is the operator:
    programs that start an open gateway make an admin key for it (``with_operator_key``). ``origins``: sites whose pages
    may send requests to an open gateway.
    """

    def __init__(
        self, keys: Mapping[str, str], admin_key: str | None = None, origins: Collection[str] = frozenset()
    ) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]
        self._origins = origins
        self._admin_key = None if admin_key is None else admin_key.encode()

    def check_site(self, headers: Headers) -> None:
        """Refuse requests of other sites' pages, and of host names that were bound to this machine (403)."""
        if not self._keys and (why := why_foreign(headers, self._origins)) is not None:
            raise ProblemError(403, why)

    def caller(self, headers: Headers, protocols: Sequence[str] = ()) -> Caller:
        """Return the caller of a request. Raises ``ProblemError``: 401, and 400 for two ``Authorization`` headers."""
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
        """Return the tenant of a request. Raises ``ProblemError`` (401), also for the admin key."""
        tenant = self.caller(headers, protocols).tenant
        if tenant is None:
            raise ProblemError(401, "the admin key is no tenant's: use one of the gateway's API keys")
        return tenant

    def _tenant_of(self, offered: bytes) -> str | None:
        """Return the tenant of a key. The key is compared with every known one, each in constant time."""
        found = None
        for key, tenant in self._keys:
            if hmac.compare_digest(key, offered):
                found = tenant
        return found


def chosen_protocol(offered: Sequence[str]) -> str | None:
    """Return the WebSocket subprotocol that the server selects."""
    return PROTOCOL if PROTOCOL in offered else None


class EventTokens:
    """Issues and verifies event tokens. ``keys``: tenants by API key; without keys no token is needed."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]

    def issue(self, tenant: str, session: str, now: float) -> tuple[str, int]:
        """Return a token for a session, and its end in seconds since the epoch."""
        key = next((key for key, owner in self._keys if owner == tenant), b"")
        end = int(now) + LIFE_S
        return f"{end}.{_signature(key, tenant, session, end)}", end

    def tenant(self, token: str, session: str, now: float) -> str | None:
        """Return the tenant of a token; None for a token that is invalid, expired, or of another session."""
        text, _, given = token[:_MAX_TOKEN_CHARS].partition(".")
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
