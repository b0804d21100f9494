"""Values of a request's query, read and bounded. All raise ``ProblemError`` for what cannot be one."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, milliseconds
from pentad.services.gateway.edge.http import tenant_of
from pentad.services.gateway.edge.problems import invalid
from pentad.shared.owners import Owner

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST_CHARS = 64
"""Of a time."""


def owner_of(request: "Request") -> Owner:
    """Who asks: the user and the session that the query names; without them, whoever sees only what is shared."""
    names = [request.query_params.get(name) for name in ("user_id", "session_id")]
    for given, name in zip(names, ("user_id", "session_id"), strict=True):
        if given is not None and not is_external_id(given):
            raise invalid(f"{name} must be an id: {EXTERNAL_ID_RULE}")
    user, session = names
    return Owner(tenant_of(request), user, session)


def number_of(request: "Request", name: str, default: int, least: int, most: int) -> int:
    """A number within its bounds."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not least <= int(text) <= most:
        raise invalid(f"{name} must be a number from {least} to {most}")
    return int(text)


def time_of(request: "Request", name: str) -> int | None:
    """A time of RFC 3339, in ms since the epoch; None where none is given."""
    text = request.query_params.get(name)
    try:
        return None if text is None else max(0, milliseconds(text[:_MOST_CHARS]))
    except ValueError as error:
        raise invalid(f"{name}: {error}") from None
