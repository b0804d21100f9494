"""The request that a call of an HTTP endpoint makes: each argument in its place, which it cannot leave. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from pentad.contracts.http_tools import HttpArgument, HttpTool
from pentad.contracts.tool_servers import fill_secrets, is_header_text
from pentad.contracts.tools import Effect
from pentad.shared.outbound.outside_client import MAX_REDIRECTS, OutsideRequest
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.results import clean

MAX_BODY_BYTES = 1 << 20
"""Bytes of JSON that a request may carry."""
MAX_HEADER_CHARS = 8_192
"""Characters that an argument in a header may have."""
_ACCEPT = "application/json, text/*;q=0.9, */*;q=0.5"
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
"""Parts of a path that stand for the folder itself and the one above it."""
_WHOLE = "whole_body"


def request_of(tool: HttpTool, args: Mapping[str, Any], key: str, secrets: Mapping[str, str]) -> OutsideRequest:
    """Return the request of a call. ``key``: the call's own, sent as ``Idempotency-Key``.

    Raises ``InvalidArguments`` for an argument that cannot stand in its place.
    """
    placed = [(tool.argument(name), name, value) for name, value in args.items() if value is not None]
    own = fill_secrets(tool.headers, secrets) | {
        place.name: _header(tool, name, value) for place, name, value in placed if place.place == "header"
    }
    body = _body(tool, placed)
    if body is not None:
        own["Content-Type"] = "application/json"
    if not any(name.lower() == "accept" for name in own):
        own["Accept"] = _ACCEPT
    return OutsideRequest(
        tool.method,
        _address(tool, placed),
        own_headers=own | {"Idempotency-Key": key},
        content=body or b"",
        redirects=MAX_REDIRECTS if tool.method == "GET" and tool.actual_effect is Effect.PURE else 0,
    )


_Placed = list[tuple[HttpArgument, str, Any]]


def _address(tool: HttpTool, placed: _Placed) -> str:
    """Return the address with its arguments, percent-encoded: none of them can end its part of the address."""
    values = {place.name: _part(tool, name, value) for place, name, value in placed if place.place == "path"}
    try:
        url = tool.with_values(values)
    except KeyError as error:
        raise InvalidArguments(
            f"tool {tool.name!r}: argument {error.args[0]!r} is missing: its address needs it"
        ) from None
    before, mark, query = url.partition("?")
    path = before.partition("://")[2].partition("/")[2]
    if any(_DOTS.fullmatch(part) for part in path.split("/")):
        raise InvalidArguments(f"tool {tool.name!r}: an argument in its address is . or .., which leads elsewhere")
    more = [
        f"{_quoted(n)}={_quoted(v)}" for place, _, v in placed if place.place == "query" for n, v in _pairs(place, v)
    ]
    parts = [part for part in (query, *more) if part]
    return f"{before}?{'&'.join(parts)}" if parts else f"{before}{mark}"


def _part(tool: HttpTool, name: str, value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    text = ",".join(_quoted(_text(each)) for each in items)
    if not text:
        raise InvalidArguments(f"tool {tool.name!r}: argument {name!r} is empty: the address needs it")
    return text


def _pairs(place: HttpArgument, value: Any) -> Iterator[tuple[str, str]]:
    """Return an argument as parameters of a query."""
    if place.form != "json" and isinstance(value, list):
        if place.form == "comma":
            yield place.name, ",".join(map(_text, value))
        else:
            yield from ((place.name, _text(each)) for each in value)
    elif place.form == "deep" and isinstance(value, Mapping):
        yield from ((f"{place.name}[{key}]", _text(each)) for key, each in value.items() if each is not None)
    else:
        yield place.name, _json(value) if place.form == "json" else _text(value)


def _header(tool: HttpTool, name: str, value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, list) else _text(value)
    if not is_header_text(text) or len(text) > MAX_HEADER_CHARS:
        raise InvalidArguments(
            f"tool {tool.name!r}: argument {name!r} goes into a header: give one line of ASCII, of at most "
            f"{MAX_HEADER_CHARS} characters"
        )
    return text


def _body(tool: HttpTool, placed: _Placed) -> bytes | None:
    """Return the JSON of the body; None for a request without one."""
    members = {place.name: value for place, _, value in placed if place.place == "body"}
    whole = [value for place, _, value in placed if place.place == _WHOLE]
    if not whole and not members:
        has_one = tool.method not in ("GET", "DELETE") and any(
            tool.argument(name).place in ("body", _WHOLE) for name in tool.parameters.get("properties", {})
        )
        return b"{}" if has_one else None
    body = _json(whole[0] if whole else members).encode()
    if len(body) > MAX_BODY_BYTES:
        raise InvalidArguments(f"tool {tool.name!r}: the arguments have {len(body)} bytes: at most {MAX_BODY_BYTES}")
    return body


def _text(value: Any) -> str:
    """Return a value as it stands outside of JSON."""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return clean(to_json(value).decode())


def _quoted(text: str) -> str:
    return quote(clean(text), safe="")
