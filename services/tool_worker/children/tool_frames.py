"""Frames between the worker and its children: a length (4 bytes, big-endian), then a JSON array.

To a child: ``["call", number, tool, args, context]``, ``["cancel", number]``, ``["ping", number]``, ``["stop"]``,
and ``["env", {name: value}]`` once it is ready.
From it: ``["ready", [[spec, is_async], ...], instructions, variables]`` or ``["failed", text]`` first, then
``["done", number, kind, text]``, ``["progress", number, text, fraction]``, ``["pong", number]``.
"""

import json
from collections.abc import Iterator
from typing import Any

_HEAD = 4
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

Frame = list[Any]


def pack(frame: Frame) -> bytes:
    """A frame as bytes. Raises ``ValueError`` when it is not JSON or nested too deeply."""
    try:
        body = _encode(frame).encode(errors="surrogatepass")  # a model's arguments may hold half a pair
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return len(body).to_bytes(_HEAD, "big") + body


class Unpacker:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that ``data`` completes, in order."""
        buffer = self._buffer
        buffer += data
        start = 0
        while (end := self._end(start)) is not None:
            body = buffer[start + _HEAD : end]
            start = end
            yield _decode(body.decode(errors="surrogatepass"))
        del buffer[:start]

    def _end(self, start: int) -> int | None:
        """Where the frame at ``start`` ends, or None while it is not complete."""
        body = start + _HEAD
        if len(self._buffer) < body:
            return None
        end = body + int.from_bytes(self._buffer[start:body], "big")
        return end if end <= len(self._buffer) else None
