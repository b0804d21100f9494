"""The HTTP side of the scripted model server: bytes in, bytes out, no framework."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from pentad.shared.models.embeddings import HashingEmbedding
from tests.support.models.protocols import ScriptedProtocol
from tests.support.models.replies import Reply

_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 429: b"Too Many Requests"}


def breaks(reply: Reply) -> bool:
    """Whether this answer ends by cutting the connection."""
    return reply.cut_after is not None and reply.hang_up


def parse(buffer: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Head, body and rest of the first request in the buffer; None while it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = buffer[:end]
    at = head.lower().find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    stop = end + 4 + length
    return (head, buffer[end + 4 : stop], buffer[stop:]) if len(buffer) >= stop else None


def request(head: bytes) -> tuple[str, Mapping[str, str]]:
    """Path without query, and headers with lower-case names."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first.split(" ")[1].partition("?")[0], {name.lower(): value.strip() for name, _, value in pairs}


def _status(status: int, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
    return b"HTTP/1.1 %d %s\r\n%s" % (status, _REASONS.get(status, b"Scripted"), extra)


def whole(status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A JSON response."""
    kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return _status(status, headers) + kind + body


def answer_whole(reply: Reply, protocol: ScriptedProtocol) -> bytes:
    """An answer that is not streamed, or an error."""
    body = protocol.document(reply) if reply.status == 200 else protocol.error_body(reply)
    return whole(reply.status, body, reply.headers)


def head(reply: Reply) -> bytes:
    """The head of a streamed answer."""
    kind = f"Content-Type: {reply.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return _status(reply.status, reply.headers) + kind


def chunk(event: bytes) -> bytes:
    """One event as an HTTP chunk; an empty one would end the body, so it is left out."""
    return b"%x\r\n%s\r\n" % (len(event), event) if event else b""


@lru_cache(maxsize=512)
def stream(reply: Reply, protocol: ScriptedProtocol) -> bytes:
    """A whole streamed answer in one piece."""
    body = b"".join(map(chunk, protocol.events(reply)))
    return head(reply) + body + (b"" if breaks(reply) else b"0\r\n\r\n")


def embeddings(embedding: HashingEmbedding, asked: Mapping[str, Any]) -> bytes:
    """The body of an `/embeddings` response, as floats or base64."""
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    packed = asked.get("encoding_format") == "base64"
    vectors = [_packed(vector) if packed else vector for vector in map(embedding.vector, texts)]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return to_json({"object": "list", "data": data, "model": asked.get("model"), "usage": {"prompt_tokens": 1}})


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
