"""Access tokens: short-lived, for one session, with the rights that they name.

A token says all of this itself and is signed with the API key that asked for it. So it is stored nowhere, holds at
every gateway that has the key, also after a restart, and ends with the key.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import ExternalId, Identifier
from pentad.contracts.tokens import MAX_TTL_S, TOKEN_PREFIX, Right, TokenRequest
from pentad.services.gateway.edge.problems import ProblemError
from pentad.shared.immutable import immutable

MAX_TOKEN_CHARS = 4096
"""Characters of a token that are read; the longest ids make less than half of them."""
CLOCK_LEEWAY_MS = 60_000
"""Milliseconds by which the clocks of two gateways may differ. A token from further ahead is refused: by a clock that
was set back it would be valid for longer than was asked for."""
_SIGNED = b"pentad access token 1\n"
"""Beginning of all that is signed, so that a signature for something else is never one of a token."""
_STATEMENT = TypeAdapter(tuple[Identifier, ExternalId, ExternalId | None, tuple[Right, ...], int, int])
"""Form of what a token states, the fields of `Grant` in their order."""


@immutable
class Grant:
    """The statement of a token: who may do what, where and until when."""

    tenant: str
    session: str
    user: str | None
    may: tuple[Right, ...]
    made: int
    """Time at which the token was made, in milliseconds since the epoch."""
    end: int
    """Time from which on the token is refused."""

    def check(self, right: Right) -> None:
        """Refuse what this token may not do. Raises ``ProblemError`` (403)."""
        if right not in self.may:
            raise not_for_tokens(f"this token may not {right}: ask for one whose `may` has {right!r}")

    def check_session(self, session: str) -> None:
        """Refuse every session but the token's own. Raises ``ProblemError`` (403)."""
        if session != self.session:
            raise not_for_tokens("this token is for another session")

    def message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message's body as one of the token's session and user, which decides only if the token may.

        Raises ``ProblemError`` (403) if the body names others, or has events sent to somebody that the token may not
        read.
        """
        if body.get("callback_url") is not None:
            self.check("read")
        if body.get("session_id") not in (None, "", self.session):
            raise not_for_tokens("this token is for another session than the message's `session_id`")
        if body.get("user_id") not in (None, self.user):
            raise not_for_tokens("this token is not for the message's `user_id`: leave it out")
        decides = body.get("decides") if "approve" in self.may else False
        return {**body, "session_id": self.session, "user_id": self.user, "decides": decides}


def not_for_tokens(detail: str) -> ProblemError:
    """Return a refusal of what a token is not for (403)."""
    return ProblemError(403, detail, ErrorCode.NOT_ALLOWED)


def grant_of(request: TokenRequest, tenant: str, now_ms: int) -> Grant:
    """Return what a token for this request states."""
    made, end = now_ms, now_ms + request.ttl_s * 1000
    return Grant(tenant, request.session_id, request.user_id, request.may, made, end)


def written(grant: Grant, key: bytes) -> str:
    """Return the token that states this, signed with an API key. It needs no quoting in headers and addresses."""
    said = [grant.tenant, grant.session, grant.user, grant.may, grant.made, grant.end]
    text = _base64(to_json(said))
    return f"{TOKEN_PREFIX}{text.decode()}.{_signature(key, text).decode()}"


def looks_like_token(given: bytes) -> bool:
    """Return whether this was meant as an access token, and not as an API key."""
    return given.startswith(TOKEN_PREFIX.encode())


class TokenReader:
    """Verifies tokens. ``keys``: pairs of API key and tenant."""

    def __init__(self, keys: list[tuple[bytes, str]]) -> None:
        self._keys = keys

    def read(self, given: bytes, now_ms: int) -> Grant:
        """Return what a token states. Raises ``ProblemError`` (401) for one that is not valid, or not at this time."""
        if not looks_like_token(given) or len(given) > MAX_TOKEN_CHARS:
            raise _void("it is none that a gateway has made")
        text, _, signature = given.removeprefix(TOKEN_PREFIX.encode()).partition(b".")
        tenants = {tenant for key, tenant in self._keys if hmac.compare_digest(_signature(key, text), signature)}
        grant = _grant_in(text) if tenants else None
        if grant is None or grant.tenant not in tenants:
            raise _void("it was not made with a key of this gateway, or that key is gone")
        if now_ms >= grant.end:
            raise _void("it has ended")
        if now_ms < grant.made - CLOCK_LEEWAY_MS:
            raise _void("by this gateway's clock it was not made yet: have its operator set the clocks of the gateways")
        return grant


def _void(why: str) -> ProblemError:
    return ProblemError(401, f"this token is not valid: {why}. Ask for another: POST /v1/tokens with an API key")


def _grant_in(text: bytes) -> Grant | None:
    """Return what a text states that one of our keys has signed; None for one that is no statement of a token."""
    try:
        grant = Grant(*_STATEMENT.validate_json(urlsafe_b64decode(text + b"=" * (-len(text) % 4))))
    except ValueError:
        return None
    return grant if 0 < grant.end - grant.made <= MAX_TTL_S * 1000 else None


def _signature(key: bytes, text: bytes) -> bytes:
    return _base64(hmac.digest(key, _SIGNED + text, "sha256"))


def _base64(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
