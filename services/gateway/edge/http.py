"""Reading of HTTP requests and writing of answers: bounded bodies, checked parameters, query values, JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_json

from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_RULE, is_external_id, is_identifier, milliseconds, shard_of
from pentad.services.gateway.domain.frames import UnreadableError, read_object
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.pages import BadPageError, IndexEntry, Page, parse_page
from pentad.services.gateway.edge.problems import ProblemError, bad, invalid, missing
from pentad.shared.event_loop import turn_after
from pentad.shared.keys import SessionKeys
from pentad.shared.owners import Owner

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

BODY_LIMIT = 1 << 20
"""Bytes that a request's body may have."""
PAGE_DEFAULT, PAGE_LIMIT = 50, 500
WAIT_LIMIT_S = 600.0
Asked = TypeVar("Asked")


_MAX_TIME_CHARS = 64
"""Characters of a time that are read."""


def answer(body: Mapping[str, Any], status: int = 200) -> "Response":
    """Return a JSON response."""
    from starlette.responses import Response

    return Response(to_json(body), status, {"cache-control": "no-store"}, "application/json")


async def answer_with_list(body: Mapping[str, Any], name: str, items: Sequence[Any]) -> "Response":
    """Return a JSON response with a list as its last member, written item by item so that long lists block nobody."""
    from starlette.responses import Response

    written = list[bytes]()
    for item in items:
        written.append(to_json(item))
        await turn_after(len(written[-1]))
    members = [(key, to_json(value)) for key, value in body.items()] + [(name, b"[%b]" % b",".join(written))]
    text = b"{%b}" % b",".join(b"%b:%b" % (to_json(key), value) for key, value in members)
    return Response(text, 200, {"cache-control": "no-store"}, "application/json")


def answer_with_page(page: Page) -> "Response":
    """Return the response for a page of a list."""
    return answer({"items": page.items, "next": page.next})


async def read_body(request: "Request") -> dict[str, Any]:
    """Return the JSON object in the body. Raises ``ProblemError``: 415, 413, 400."""
    return object_of_body(await read_bytes(request))


async def read_asked(request: "Request", read: Callable[[Mapping[str, Any]], Asked]) -> Asked:
    """Return what ``read`` makes of the JSON object in the body.

    Raises ``ProblemError``: as `read_body` does, and 422 if ``read`` raises ``UnreadableError``.
    """
    body = await read_body(request)
    try:
        return read(body)
    except UnreadableError as error:
        raise invalid(str(error)) from None


async def read_bytes(request: "Request", limit: int = BODY_LIMIT) -> bytes:
    """Return the body, which has so many bytes at most. Raises ``ProblemError``: 415, 413."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body is sent as it is, without Content-Encoding")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def object_of_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes. Raises ``ProblemError`` (400)."""
    try:
        return read_object(body)
    except UnreadableError as error:
        raise bad(str(error)) from None


def too_large(limit: int) -> ProblemError:
    """Return the refusal of a body with more bytes than these."""
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {limit} bytes")


async def read_body_if_any(request: "Request") -> dict[str, Any] | None:
    """Return the JSON object in the body; None if there is no body. Raises the errors of `read_body`."""
    body = await read_bytes(request)
    return object_of_body(body) if body.strip() else None


def limit_of(request: "Request") -> int:
    """Return the query's ``limit`` of a list. Raises ``ProblemError`` (422)."""
    text = request.query_params.get("limit", str(PAGE_DEFAULT))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= PAGE_LIMIT:
        raise invalid(f"limit must be a number from 1 to {PAGE_LIMIT}")
    return int(text)


def page_of(request: "Request") -> tuple[int, IndexEntry | None]:
    """Return the query's ``limit`` and ``cursor`` of a list. Raises ``ProblemError`` (422)."""
    limit = limit_of(request)
    try:
        return limit, parse_page(request.query_params.get("cursor"))
    except BadPageError as error:
        raise invalid(str(error)) from None


def wait_of(request: "Request") -> float | None:
    """Return the query's ``wait`` in seconds, at most `WAIT_LIMIT_S`; None if absent. Raises ``ProblemError`` (422)."""
    text = request.query_params.get("wait")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise invalid("wait must be a number of seconds")
    return min(seconds, WAIT_LIMIT_S)


def caller_of(request: "Request") -> Caller:
    """Return the request's caller."""
    caller: Caller = request.scope["pentad.caller"]
    return caller


def tenant_of(request: "Request") -> str:
    """Return the tenant of the request's caller, who may see all of it.

    Raises ``ProblemError`` (403) for the admin key and for tokens: see `scope_of`.
    """
    tenant, _ = scope_of(request)
    caller_of(request).check(None)
    return tenant


def scope_of(request: "Request") -> tuple[str, str | None]:
    """Return the tenant of the request's caller, and the session to which a token keeps the caller; None: all.

    Raises ``ProblemError`` (403) for the admin key.
    """
    caller = caller_of(request)
    if caller.tenant is None:
        raise ProblemError(403, "this belongs to a tenant: use one of its API keys, not the admin key")
    return caller.tenant, caller.session


def asked_scope_of(request: "Request") -> tuple[str, str | None]:
    """Return what `scope_of` does, or all of the tenant that the query's ``tenant`` names, which operators may ask for.

    Raises ``ProblemError``: 403 for a ``tenant`` of anybody else, 422 for one that is no name.
    """
    tenant = request.query_params.get("tenant")
    if tenant is None:
        return scope_of(request)
    admin_only(request)
    if not is_identifier(tenant):
        raise invalid(f"tenant: {ID_RULE}")
    return tenant, None


def admin_only(request: "Request") -> None:
    """Refuse all callers but the operator. Raises ``ProblemError`` (403)."""
    if not caller_of(request).admin:
        raise ProblemError(
            403,
            "this needs the admin key as `Authorization: Bearer KEY`: PENTAD_ADMIN_KEY, or for an open gateway without "
            "it the text of admin.key in its data directory",
        )


def session_keys(tenant: str, session: str, shards: int) -> SessionKeys:
    """Return the keys of a session. Raises ``ProblemError`` (400) for an invalid id."""
    if not is_external_id(session):
        raise bad(f"a session id has {EXTERNAL_ID_RULE}")
    return SessionKeys(shard_of(tenant, session, shards), tenant, session)


def session_of(request: "Request", shards: int) -> SessionKeys:
    """Return the keys of the session in the path. Raises ``ProblemError`` (400; 403 for another than the token's)."""
    (tenant, _), session, grant = scope_of(request), request.path_params["session"], caller_of(request).grant
    if grant is not None:
        grant.check_session(session)
    return session_keys(tenant, session, shards)


def task_of(request: "Request") -> str:
    """Return the task id in the path. Raises ``ProblemError`` (404) for an invalid id."""
    task: str = request.path_params["task"]
    if not is_identifier(task):
        raise missing("there is no such task")
    return task


def step_of(request: "Request") -> int:
    """Return the number of the step in the path, from 1 on. Raises ``ProblemError`` (404) for an invalid number."""
    text: str = request.path_params["step"]
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise missing("steps are numbered from 1")
    return int(text)


def owner_of(request: "Request") -> Owner:
    """Return the owner made of the query's user and session; without them, one who sees only shared memories."""
    names = [request.query_params.get(name) for name in ("user_id", "session_id")]
    for given, name in zip(names, ("user_id", "session_id"), strict=True):
        if given is not None and not is_external_id(given):
            raise invalid(f"{name} must be an id: {EXTERNAL_ID_RULE}")
    user, session = names
    return Owner(tenant_of(request), user, session)


def number_of(request: "Request", name: str, default: int, least: int, most: int) -> int:
    """Return a number in the query. Raises ``ProblemError`` (422) if it is out of bounds."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not least <= int(text) <= most:
        raise invalid(f"{name} must be a number from {least} to {most}")
    return int(text)


def time_of(request: "Request", name: str) -> int | None:
    """Return an RFC 3339 time in the query as milliseconds since the epoch; None if absent."""
    text = request.query_params.get(name)
    try:
        return None if text is None else max(0, milliseconds(text[:_MAX_TIME_CHARS]))
    except ValueError as error:
        raise invalid(f"{name}: {error}") from None
