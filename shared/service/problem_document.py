"""A refusal over HTTP as an RFC 9457 problem document, whoever refuses: a route, a port, the server under it."""

from http import HTTPStatus
from typing import Any

from pydantic_core import to_json

MEDIA_TYPE = "application/problem+json"


def problem_document(status: int, detail: str, **more: Any) -> bytes:
    """The document. ``more``: members beside the standard's."""
    title = HTTPStatus(status).phrase
    return to_json({"type": "about:blank", "title": title, "status": status, "detail": detail} | more)


def last_answer(status: int, detail: str) -> bytes:
    """The bytes of a whole answer on a connection that is closed behind it."""
    body = problem_document(status, detail)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
