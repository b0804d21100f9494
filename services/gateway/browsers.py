"""What pages in a browser need: to be let in from other sites (CORS), and to follow events without an API key."""

import re
from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.http import answer, tenant_of
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.parts import Parts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_EVENTS = re.compile(r"/v1/sessions/([^/]{1,400})/events")
_METHODS = ("GET", "POST", "DELETE")
_HEADERS = ("Authorization", "Content-Type", "Last-Event-ID")
_TOLD = ("Retry-After",)
"""Headers of answers that a page may read."""
_REMEMBERED_S = 600
"""How long a browser need not ask again."""


def open_to(app: Any, origins: Sequence[str]) -> Any:
    """The app, for pages of these sites too. Cookies are nothing to us, so none are allowed."""
    if not origins:
        return app
    from starlette.middleware.cors import CORSMiddleware

    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=_METHODS,
        allow_headers=_HEADERS,
        expose_headers=_TOLD,
        allow_private_network=True,
        max_age=_REMEMBERED_S,
    )


def caller_of(parts: Parts, scope: Any) -> Caller:
    """Who is behind a request: by API key, or for a session's events by a token. Raises ``ProblemError`` (401)."""
    try:
        return parts.access.caller(scope["headers"])
    except ProblemError:
        tenant = _tenant_by_token(parts, scope) if b"token=" in scope["query_string"] else None
        if tenant is None:
            raise
        return Caller(tenant, admin=False)


def _tenant_by_token(parts: Parts, scope: Any) -> str | None:
    asked = _EVENTS.fullmatch(scope["path"])
    if asked is None or scope["method"] != "GET":
        return None
    tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    tenant = parts.tokens.tenant(tokens[0], asked[1], time()) if len(tokens) == 1 else None
    if tenant is None:
        raise ProblemError(
            401, "this token lets nobody in (any more): ask for another, POST .../event-token with a key"
        )
    return tenant


async def make_token(parts: Parts, request: "Request") -> "Response":
    """A token with which a session's events can be followed for a while, and nothing else be done."""
    keys = parts.session(tenant_of(request), request.path_params["session"])
    token, end = parts.tokens.issue(keys.tenant, keys.session, time())
    return answer({"token": token, "expires_at": end})
