"""Access to the gateway: API keys, access tokens, and the check of sites and host names on an open loopback gateway."""

import hmac
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from time import monotonic, time_ns

from pentad.contracts.ids import DEFAULT_TENANT, rfc3339
from pentad.contracts.tokens import AccessToken, Right, TokenRequest
from pentad.services.gateway.edge.problems import ProblemError, bad
from pentad.services.gateway.edge.tokens import Grant, TokenReader, grant_of, looks_like_token, not_for_tokens, written
from pentad.shared.immutable import immutable
from pentad.shared.service.http import Headers, why_foreign
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

PROTOCOL = "pentad.v1"
_KEY_PROTOCOL = "bearer."
_MAX_LOGGED_ORIGIN = 200
"""Bytes of a refused page's origin that are logged."""
_OPEN_KEY = b"open"
"""Key with which an open gateway signs its tokens: they keep a page to its session, and guard nothing."""


@immutable
class Caller:
    """The sender of a request."""

    tenant: str | None
    """Tenant of the caller; None for the holder of the admin key, which belongs to no tenant."""
    admin: bool
    """Whether the caller may use the operator's routes."""
    key: bytes = field(default=b"", repr=False)
    """API key of the caller; empty for the holder of a token or of the admin key."""
    grant: Grant | None = None
    """Statement of the caller's token; None for the holder of a key."""
    until: float | None = None
    """End of the caller's token by this process's monotonic clock, which nobody sets."""

    @property
    def session(self) -> str | None:
        """The only session that the caller may see; None for one who sees all of the tenant."""
        return None if self.grant is None else self.grant.session

    @property
    def left_s(self) -> float | None:
        """Seconds until the caller's token ends; None for a caller without a token."""
        return None if self.until is None else max(0.0, self.until - monotonic())

    def check(self, right: Right | None) -> None:
        """Refuse the holder of a token without this right; None: every token. Raises ``ProblemError`` (403)."""
        if self.grant is None:
            return
        if right is None:
            raise not_for_tokens("a token opens its session and nothing else: this needs an API key")
        self.grant.check(right)


class Access:
    """The access rules of one gateway.

    Without API keys everybody is the default tenant, and if there is no admin key either, everybody is the operator:
    programs that start an open gateway make an admin key for it (``with_operator_key``). ``origins``: sites whose pages
    may send requests to an open gateway.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        admin_key: str | None = None,
        origins: Collection[str] = frozenset(),
        now_ms: Callable[[], int] = lambda: time_ns() // 1_000_000,
    ) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]
        self._tokens = TokenReader(self._keys or [(_OPEN_KEY, DEFAULT_TENANT)])
        self._origins = origins
        self._admin_key = None if admin_key is None else admin_key.encode()
        self._now_ms = now_ms

    def check_site(self, headers: Headers) -> None:
        """Refuse requests of other sites' pages, and of host names that were bound to this machine (403)."""
        if not self._keys and (why := why_foreign(headers, self._origins)) is not None:
            _say_refused(headers, why)
            raise ProblemError(403, why)

    def caller(self, headers: Headers, protocols: Sequence[str] = (), token: str | None = None) -> Caller:
        """Return the caller of a request, by a header, else by an offered subprotocol, else by a token in the address.

        Raises ``ProblemError``: 401, and 400 for two ``Authorization`` headers.
        """
        offered = [p.removeprefix(_KEY_PROTOCOL) for p in protocols if p.startswith(_KEY_PROTOCOL)]
        told = [value for name, value in headers if name == b"authorization"]
        if len(told) > 1:
            raise bad("there are two `Authorization` headers: which of them counts is for nobody to guess")
        for value in told:
            scheme, _, key = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                offered.insert(0, key.strip())
        if not offered and token is not None:
            return self._holder_of_token(token.encode("utf-8", "replace"))
        return self._holder_of(offered[0].encode("latin-1", "replace") if offered else b"")

    def _holder_of(self, given: bytes) -> Caller:
        """Return the holder of a key or token. Raises ``ProblemError`` (401)."""
        admin = self._admin_key is not None and hmac.compare_digest(self._admin_key, given)
        if admin and self._keys:
            return Caller(None, admin=True)
        tenant = self._tenant_of(given) if given else None
        if tenant is not None:
            return Caller(tenant, admin=False, key=given)
        if not admin and looks_like_token(given):
            return self._holder_of_token(given)
        if not self._keys:
            return Caller(DEFAULT_TENANT, admin or self._admin_key is None, key=_OPEN_KEY)
        raise ProblemError(401, "give one of the gateway's API keys as `Authorization: Bearer KEY`")

    def _holder_of_token(self, given: bytes) -> Caller:
        now = self._now_ms()
        grant = self._tokens.read(given, now)
        return Caller(grant.tenant, admin=False, grant=grant, until=monotonic() + (grant.end - now) / 1000)

    def token(self, caller: Caller, request: TokenRequest) -> AccessToken:
        """Return a token that a tenant's caller has asked for. Raises ``ProblemError`` (403) for all other callers."""
        if caller.tenant is None or not caller.key:
            raise ProblemError(403, "a token is made with a tenant's API key, not with the admin key or a token")
        grant = grant_of(request, caller.tenant, self._now_ms())
        return AccessToken(token=written(grant, caller.key), expires_at=rfc3339(grant.end))

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


def _say_refused(headers: Headers, why: str) -> None:
    """Log which page was refused: its visitor sees an error of the browser that does not say why."""
    for name, value in headers:
        if name == b"origin":
            shown = ascii(value[:_MAX_LOGGED_ORIGIN].decode("latin-1"))
            _say.warning("site", "refused a page of %s: %s", shown, why)
