"""Support for pages in a browser: access from other sites (CORS), and event tokens in place of an API key."""

import re
from collections.abc import Sequence
from time import time
from typing import Any
from urllib.parse import parse_qs

from pentad.services.gateway.edge.access import Access, Caller, EventTokens
from pentad.services.gateway.edge.problems import ProblemError

_EVENTS = re.compile(r"/v1/sessions/([^/]{1,400})/events")
_METHODS = ("GET", "POST", "DELETE")
_HEADERS = ("Authorization", "Content-Type", "Last-Event-ID")
_EXPOSED_HEADERS = ("Retry-After",)
"""Headers of answers that a page may read."""
_PREFLIGHT_MAX_AGE_S = 600
"""Seconds for which a browser may cache the answer to a preflight request."""


def open_to(app: Any, origins: Sequence[str]) -> Any:
    """Return the app with CORS for pages of these sites. The gateway uses no cookies, so none are allowed."""
    if not origins:
        return app
    from starlette.middleware.cors import CORSMiddleware

    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=_METHODS,
        allow_headers=_HEADERS,
        expose_headers=_EXPOSED_HEADERS,
        allow_private_network=True,
        max_age=_PREFLIGHT_MAX_AGE_S,
    )


def caller_of(access: Access, tokens: EventTokens, scope: Any) -> Caller:
    """Return the caller by the API key, or by the token for a session's events. Raises ``ProblemError`` (401)."""
    try:
        return access.caller(scope["headers"])
    except ProblemError:
        tenant = _tenant_by_token(tokens, scope) if b"token=" in scope["query_string"] else None
        if tenant is None:
            raise
        return Caller(tenant, admin=False)


def _tenant_by_token(tokens: EventTokens, scope: Any) -> str | None:
    asked = _EVENTS.fullmatch(scope["path"])
    if asked is None or scope["method"] != "GET":
        return None
    given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    tenant = tokens.tenant(given[0], asked[1], time()) if len(given) == 1 else None
    if tenant is None:
        raise ProblemError(
            401, "this token lets nobody in (any more): ask for another, POST .../event-token with a key"
        )
    return tenant
