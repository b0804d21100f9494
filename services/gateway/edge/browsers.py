"""Support for pages in a browser: access from other sites (CORS), and tokens in the address of their events."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

_EVENTS = re.compile(r"/v1/sessions/[^/]{1,400}/events")
_METHODS = ("GET", "POST", "PUT", "DELETE")
_HEADERS = (
    *("Authorization", "Content-Type", "Last-Event-ID", "If-Match", "If-None-Match", "If-Range", "Range"),
    *("A2A-Version", "A2A-Extensions"),
)
_EXPOSED_HEADERS = ("Retry-After", "ETag", "Content-Range", "Content-Disposition")
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


def token_in_address(scope: Any) -> str | None:
    """Return the token in the query of a request for a session's events; None for any other request.

    An EventSource can send a token in no other way. An API key in an address counts nowhere: addresses are logged by
    proxies, and a key does not end. Two tokens are none that is valid.
    """
    if b"token=" not in scope["query_string"] or scope["method"] != "GET" or not _EVENTS.fullmatch(scope["path"]):
        return None
    given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("token", [])
    return given[0] if len(given) == 1 else ""
