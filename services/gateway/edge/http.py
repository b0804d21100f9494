"""Reading HTTP requests and writing answers: bounded bodies, checked parameters, values of queries, JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_json

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, is_identifier, milliseconds, shard_of
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
"""Bytes of a request's body."""
PAGE_DEFAULT, PAGE_LIMIT = 50, 500
WAIT_LIMIT_S = 600.0
Asked = TypeVar("Asked")


_MOST_CHARS = 64
"""Of a time."""


def answer(body: Mapping[str, Any], status: int = 200) -> "Response":
    """A JSON answer."""
    from starlette.responses import Response

    return Response(to_json(body), status, {"cache-control": "no-store"}, "application/json")


async def answer_with_list(body: Mapping[str, Any], name: str, items: Sequence[Any]) -> "Response":
    """The same with one member more, a list: written item by item, so that a long one does not hold others up."""
    from starlette.responses import Response

    written = list[bytes]()
    for item in items:
        written.append(to_json(item))
        await turn_after(len(written[-1]))
    members = [(key, to_json(value)) for key, value in body.items()] + [(name, b"[%b]" % b",".join(written))]
    text = b"{%b}" % b",".join(b"%b:%b" % (to_json(key), value) for key, value in members)
    return Response(text, 200, {"cache-control": "no-store"}, "application/json")


def answer_with_page(page: Page) -> "Response":
    """A page of a list."""
    return answer({"items": page.items, "next": page.next})


async def read_body(request: "Request") -> dict[str, Any]:
    """The body's JSON object. Raises ``ProblemError``: 415, 413, 400."""
    return _object(await _read_bytes(request))


async def read_asked(request: "Request", read: Callable[[Mapping[str, Any]], Asked]) -> Asked:
    """What the request's body asks for, as ``read`` makes it of the JSON object. ``read`` raises ``UnreadableError``.

    Raises ``ProblemError``: as `read_body`, and 422 for what ``read`` does not take.
    """
    body = await read_body(request)
    try:
        return read(body)
    except UnreadableError as error:
        raise invalid(str(error)) from None


async def _read_bytes(request: "Request") -> bytes:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body is sent as it is, without Content-Encoding")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_LIMIT:
        raise _too_large()
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


def _object(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except UnreadableError as error:
        raise bad(str(error)) from None


def _too_large() -> ProblemError:
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_LIMIT} bytes")


async def read_body_if_any(request: "Request") -> dict[str, Any] | None:
    """The body's JSON object; None when there is no body. Raises as `read_body`."""
    body = await _read_bytes(request)
    return _object(body) if body.strip() else None


def limit_of(request: "Request") -> int:
    """``limit`` of a list. Raises ``ProblemError`` (422)."""
    text = request.query_params.get("limit", str(PAGE_DEFAULT))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= PAGE_LIMIT:
        raise invalid(f"limit must be a number from 1 to {PAGE_LIMIT}")
    return int(text)


def page_of(request: "Request") -> tuple[int, IndexEntry | None]:
    """``limit`` and ``cursor`` of a list. Raises ``ProblemError`` (422)."""
    limit = limit_of(request)
    try:
        return limit, parse_page(request.query_params.get("cursor"))
    except BadPageError as error:
        raise invalid(str(error)) from None


def wait_of(request: "Request") -> float | None:
    """``wait`` in seconds, at most `WAIT_LIMIT_S`; None when it is not asked for. Raises ``ProblemError`` (422)."""
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


def tenant_of(request: "Request") -> str:
    """Whose request it is; the edge has found it out. Raises ``ProblemError`` (403) for the admin key."""
    caller: Caller = request.scope["pentad.caller"]
    if caller.tenant is None:
        raise ProblemError(403, "this belongs to a tenant: use one of its API keys, not the admin key")
    return caller.tenant


def admin_only(request: "Request") -> None:
    """Refuse everybody but the operator. Raises ``ProblemError`` (403)."""
    caller: Caller = request.scope["pentad.caller"]
    if not caller.admin:
        raise ProblemError(
            403,
            "this needs the admin key as `Authorization: Bearer KEY`: PENTAD_ADMIN_KEY, or for an open gateway without "
            "it the text of admin.key in its data directory",
        )


def session_keys(tenant: str, session: str, shards: int) -> SessionKeys:
    """The keys of a session. Raises ``ProblemError`` (400) for what is no id."""
    if not is_external_id(session):
        raise bad(f"a session id has {EXTERNAL_ID_RULE}")
    return SessionKeys(shard_of(tenant, session, shards), tenant, session)


def session_of(request: "Request", shards: int) -> SessionKeys:
    """The session of the path. Raises ``ProblemError`` (400, 403)."""
    return session_keys(tenant_of(request), request.path_params["session"], shards)


def task_of(request: "Request") -> str:
    """The task id of the path; what cannot be one is unknown. Raises ``ProblemError`` (404)."""
    task: str = request.path_params["task"]
    if not is_identifier(task):
        raise missing("there is no such task")
    return task


def step_of(request: "Request") -> int:
    """The number of a step in the path, from 1 on; what cannot be one is unknown. Raises ``ProblemError`` (404)."""
    text: str = request.path_params["step"]
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise missing("steps are numbered from 1")
    return int(text)


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
