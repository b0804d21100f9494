"""Frames between the worker and its children: a length (4 bytes, big-endian), then a JSON array.

To a child: ``["call", number, tool, args, context, keeps_files]``, ``["cancel", number]``, ``["ping", number]``,
``["stop"]``, and ``["env", {name: value}]`` once it is ready.
From it: ``["ready", [[spec, is_async, variables], ...], instructions, files, graphs, hooks, companions]`` or
``["failed", text]`` first, then ``["done", number, kind, text, [[name, media_type, size], ...]]``,
``["progress", number, text, fraction]``, ``["pong", number]``.

Bytes of files come before their call's ``done``, in frames whose length has its first bit set: the call's number (4
bytes), then at most `PIECE` bytes. They are read as ``["bytes", number, data]``.
"""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pentad.shared.plugins.context import Report, ToolContext

_HEAD = 4
_NUMBER = 4
"""Bytes of the number of a call."""
_OF_BYTES = 1 << 31
"""Bit of a length that tells a frame of bytes."""
PIECE = 1 << 18
"""Bytes of a file in one frame."""
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


def pack_bytes(number: int, data: bytes) -> Iterator[bytes]:
    """The bytes of a call's file as frames."""
    for start in range(0, len(data), PIECE):
        piece = data[start : start + PIECE]
        head = (_OF_BYTES | (_NUMBER + len(piece))).to_bytes(_HEAD, "big")
        yield b"".join((head, number.to_bytes(_NUMBER, "big"), piece))


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
            of_bytes, body = buffer[start] & 0x80, buffer[start + _HEAD : end]
            start = end
            if of_bytes:
                yield ["bytes", int.from_bytes(body[:_NUMBER], "big"), bytes(body[_NUMBER:])]
            else:
                yield _decode(body.decode(errors="surrogatepass"))
        del buffer[:start]

    def _end(self, start: int) -> int | None:
        """Where the frame at ``start`` ends, or None while it is not complete."""
        body = start + _HEAD
        if len(self._buffer) < body:
            return None
        end = body + (int.from_bytes(self._buffer[start:body], "big") & ~_OF_BYTES)
        return end if end <= len(self._buffer) else None


class FrameWriter:
    """The writing end of a connection. Used from its loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._waiting: list[bytes] = []

    @property
    def backlog(self) -> int:
        """Bytes that the other side has not taken yet."""
        return self._transport.get_write_buffer_size()

    def send(self, frame: Frame) -> None:
        """Queues a frame. Raises ``ValueError`` when it is not JSON."""
        data = pack(frame)
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def send_bytes(self, number: int, data: bytes) -> None:
        """Queues bytes of a call's file."""
        for frame in pack_bytes(number, data):
            if not self._waiting:
                self._loop.call_soon(self._flush)
            self._waiting.append(frame)

    def close(self) -> None:
        """Sends what is queued, then hangs up."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Hangs up at once."""
        self._transport.abort()

    def _flush(self) -> None:
        if self._waiting and not self._transport.is_closing():
            self._transport.write(b"".join(self._waiting))
        self._waiting.clear()


def context_frame(context: ToolContext) -> list[Any]:
    """A context as JSON, without its ``report``."""
    deadline = context.deadline.isoformat() if context.deadline else None
    return [
        context.tool_call_id,
        context.idempotency_key,
        context.attempt,
        context.tenant_id,
        context.user_id,
        context.session_id,
        context.task_id,
        deadline,
        dict(context.metadata),
        context.as_of.isoformat() if context.as_of else None,
    ]


def context_from(frame: list[Any], report: Report) -> ToolContext:
    """The context that ``context_frame`` was made of, reporting to ``report``."""
    call, key, attempt, tenant, user, session, task, deadline, metadata, then = frame
    moment = datetime.fromisoformat(deadline) if deadline else None
    as_of = datetime.fromisoformat(then) if then else None
    return ToolContext(call, key, attempt, tenant, user, session, task, moment, metadata, report, as_of)
