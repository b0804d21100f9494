"""Access tokens for web pages: the request for one, what it may name, and the token."""

from typing import Literal, Self, get_args

from pydantic import ConfigDict, Field, model_validator

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import ExternalId

Right = Literal["read", "send", "approve"]
RIGHTS: tuple[Right, ...] = get_args(Right)
TOKEN_PREFIX = "pt1."
"""Beginning of every access token, by which it is told from an API key; the number is the version of its form."""
DEFAULT_TTL_S = 900
MAX_TTL_S = 86_400
"""Seconds for which a token may be valid: a day."""


class TokenRequest(Contract):
    """A request for an access token. An unknown field is refused: a mistyped limit would be no limit."""

    model_config = ConfigDict(extra="forbid")

    session_id: ExternalId
    """The one session that the token is for."""
    user_id: ExternalId | None = None
    """The person whose messages are sent with the token; a token without one sends messages of no user."""
    may: tuple[Right, ...] = Field(min_length=1, max_length=len(RIGHTS))
    """Rights of the token, each named once."""
    ttl_s: int = Field(default=DEFAULT_TTL_S, strict=True, ge=1, le=MAX_TTL_S)
    """Seconds for which the token is valid."""

    @model_validator(mode="after")
    def _each_right_once(self) -> Self:
        if len(set(self.may)) < len(self.may):
            raise ValueError("may: name each right once")
        return self


class AccessToken(Contract):
    """A token that opens one session for a while: what a web page gets in place of an API key."""

    token: str = Field(repr=False)
    expires_at: str
    """End of the token: RFC 3339, UTC, with milliseconds."""
