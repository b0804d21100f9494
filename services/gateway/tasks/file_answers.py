"""The bytes of a file as an HTTP response: whole or a range, never shown by a browser as a page."""

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pentad.contracts.ids import rfc3339
from pentad.shared.workspace.file_store import FileInfo
from pentad.shared.workspace.media_types import media_type_by_name
from pentad.shared.workspace.workspace import Reading

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_BLOCK = 1 << 18
"""Bytes that are read and sent at a time."""
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_TAGS = re.compile(r'(?:W/)?"([^"]{1,200})"')
_MAX_HEADER_CHARS = 4096
"""Characters of a header with tags that are read."""
_SAFE = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
    "accept-ranges": "bytes",
}
"""Headers with which no browser takes what others wrote for a page of ours."""


def shown(info: FileInfo) -> dict[str, object]:
    """Return a file as lists show it."""
    return {
        "path": info.path,
        "size": info.size,
        "media_type": media_type_by_name(info.path),
        "modified_at": rfc3339(info.modified),
        "etag": quoted(info.etag),
    }


def quoted(etag: str) -> str:
    """Return a tag as headers have it."""
    return f'"{etag}"'


def tags_in(header: str | None) -> list[str] | None:
    """Return the tags in a header; ``["*"]`` for any; None without the header."""
    if header is None:
        return None
    return ["*"] if header.strip() == "*" else _TAGS.findall(header[:_MAX_HEADER_CHARS])


class FileStream:
    """The response with bytes of a file, which it closes: an ASGI app."""

    def __init__(self, reading: Reading, response: "Response") -> None:
        self._reading, self._response = reading, response

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            await self._reading.close()


def answer_with_file(request: "Request", reading: Reading) -> FileStream:
    """Return the response with a file, which it closes."""
    return FileStream(reading, _response(request, reading))


def _response(request: "Request", reading: Reading) -> "Response":
    from starlette.responses import Response, StreamingResponse

    info = reading.info
    headers = _headers(info)
    known = tags_in(request.headers.get("if-none-match"))
    if known is not None and ("*" in known or info.etag in known):
        return Response(None, 304, headers)
    status, start, end = 200, 0, info.size
    wanted = _wanted(request, info)
    if wanted is not None:
        start, end = wanted
        if start >= end:
            return Response(None, 416, headers | {"content-range": f"bytes */{info.size}"})
        status = 206
        headers["content-range"] = f"bytes {start}-{end - 1}/{info.size}"
    headers["content-length"] = str(end - start)
    if request.method == "HEAD":
        return Response(None, status, headers)
    return StreamingResponse(_blocks(reading, start, end), status, headers)


def _headers(info: FileInfo) -> dict[str, str]:
    name = info.path.rpartition("/")[2]
    kind = media_type_by_name(info.path)
    plain = "".join(sign if (sign.isascii() and sign.isalnum()) or sign in "._-" else "_" for sign in name)
    return _SAFE | {
        "content-type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "etag": quoted(info.etag),
    }


def _wanted(request: "Request", info: FileInfo) -> tuple[int, int] | None:
    """Return the range that is asked for, empty for one that is not there; None for the whole file."""
    asked = request.headers.get("range")
    if asked is None or (found := _RANGE.fullmatch(asked.strip())) is None:
        return None
    version = request.headers.get("if-range")
    if version is not None and info.etag not in _TAGS.findall(version[:_MAX_HEADER_CHARS]):
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        return max(0, info.size - int(last)), info.size if int(last) else 0
    if last and int(last) < int(first):
        return None
    return int(first), min(info.size, int(last) + 1) if last else info.size


async def _blocks(reading: Reading, at: int, end: int) -> AsyncIterator[bytes]:
    while at < end and (block := await reading.read(at, min(_BLOCK, end - at))):
        at += len(block)
        yield block
    if at < end:
        raise OSError("the file has become shorter while it was sent")
