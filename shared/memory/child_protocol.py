"""Frames between an archiver and the child process that has the embedded store open.

A frame is a length (4 bytes, big-endian) and so many bytes. A request is a frame of JSON, ``[call, arguments]``, and
for ``upsert`` a second one with the numbers of the points' vectors, as both sides keep them in memory. An answer is one
frame: ``+`` and the result as JSON, or ``-`` and ``[kind, text]``. There is one for each request, in their order.
"""

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.shared.child_processes import start_connected
from pentad.shared.errors import (
    DamagedError,
    MemoryDamagedError,
    MemoryOutageError,
    MemoryRefusedError,
    PentadError,
    SettingsError,
)
from pentad.shared.settings import tool_environment
from pentad.shared.vectors.points import Dense, Point, Sparse, SparseVector, decode_payload, encode_payload

HEAD_BYTES = 4
MAX_FRAME_BYTES = 32 << 20
"""Bytes of a frame."""
_ERRORS: dict[str, type[PentadError]] = {
    "refused": MemoryRefusedError, "unusable": MemoryDamagedError, "outage": MemoryOutageError,
    "damaged": DamagedError, "settings": SettingsError,
}  # fmt: skip
"""Kinds of errors in an answer. The first that fits is used: some are subclasses of later ones."""


def frame_of(body: bytes) -> bytes:
    """Return the frame of a body. Raises ``MemoryRefusedError`` for one that is too long."""
    if len(body) > MAX_FRAME_BYTES:
        raise MemoryRefusedError(f"{len(body)} bytes at once: {MAX_FRAME_BYTES} at most; ask for less")
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def request_frame(call: str, arguments: Any) -> bytes:
    """Return the frame of a request. ``arguments``: values that JSON can express."""
    return frame_of(to_json([call, arguments]))


def encode_points(points: Sequence[Point]) -> tuple[list[Any], bytes]:
    """Return points as JSON values, and the numbers of their vectors."""
    numbers = bytearray()
    return [_encode_point(point, numbers) for point in points], bytes(numbers)


def decode_points(told: Sequence[Any], numbers: bytes) -> list[Point]:
    """Return the points that `encode_points` encoded. Raises ``ValueError`` and the like for other data."""
    at = _NumberReader(numbers)
    return [
        Point(
            name,
            decode_payload(name, stored),
            {Dense(using): at.reals(length) for using, length in dense},
            {Sparse(using): SparseVector(at.wholes(length), at.reals(length)) for using, length in sparse},
        )
        for name, stored, dense, sparse in told
    ]


def answer_frame(result: bytes) -> bytes:
    """Return the frame of an answer. ``result`` is JSON."""
    return frame_of(b"+" + result)


def error_frame(error: Exception) -> bytes:
    """Return the frame that answers with an error."""
    kind = next((kind for kind, each in _ERRORS.items() if isinstance(error, each)), "outage")
    text = str(error) if isinstance(error, PentadError) else f"the embedded memory fails: {error!r}"
    return frame_of(b"-" + to_json([kind, text], inf_nan_mode="constants"))


def result_of(answer: bytes) -> bytes:
    """Return the result as JSON. Raises the error that was answered, ``MemoryOutageError`` for a malformed answer."""
    if answer[:1] == b"+":
        return answer[1:]
    try:
        kind, text = from_json(answer[1:])
        error = _ERRORS[kind](str(text))
    except (ValueError, KeyError, TypeError, ValidationError):
        error = MemoryOutageError("the process that has the memory open answers what cannot be read")
    raise error


def _encode_point(point: Point, numbers: bytearray) -> list[Any]:
    for vector in point.dense.values():
        numbers += struct.pack(f"{len(vector)}f", *vector)
    for terms in point.sparse.values():
        count = len(terms.indices)
        numbers += struct.pack(f"{count}I{count}f", *terms.indices, *terms.values)
    dense = [[using, len(vector)] for using, vector in point.dense.items()]
    sparse = [[using, len(terms.indices)] for using, terms in point.sparse.items()]
    return [point.id, encode_payload(point.payload), dense, sparse]


class _NumberReader:
    """Reads numbers of four bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def reals(self, count: int) -> tuple[float, ...]:
        return self._next("f", count)

    def wholes(self, count: int) -> tuple[int, ...]:
        return self._next("I", count)

    def _next(self, kind: str, count: int) -> tuple[Any, ...]:
        begin, self._at = self._at, self._at + 4 * count
        if count < 0 or self._at > len(self._data):
            raise ValueError("there are fewer numbers than was told")
        return struct.unpack_from(f"{count}{kind}", self._data, begin)


_MODULE = "pentad.shared.memory.store_child"
_STDERR = 2
_END_S = 10.0
"""Seconds in which a child must write everything to disk at its end."""


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """The only command-line argument of a child, as JSON."""

    folder: str
    lock_fd: int
    """Descriptor of the folder's lock: the parent has it, and the child keeps it until its own end."""
    socket_fd: int
    life_fd: int
    parent_pid: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ChildOrder":
        return cls(**json.loads(text))


@dataclass(slots=True)
class StartedChild:
    """A started child process, with the parent's ends of its connections."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    life_fd: int
    """Descriptor that is never written to: when it closes, the child knows that the parent has ended."""

    def ended(self) -> int:
        """Wait until the child ends, at last by killing it; return its exit code. Run this in a thread.

        Its connection is closed by then.
        """
        try:
            code = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        os.close(self.life_fd)
        return code


def start_child(folder: Path, lock: int) -> StartedChild:
    """Start a child. Call it in the thread of the event loop: when that thread ends, so does the child.

    Raises ``OSError`` when the system has no room for another process.
    """
    started = start_connected(lambda end, life: _start_process(ChildOrder(str(folder), lock, end, life, os.getpid())))
    return StartedChild(*started)


def _start_process(order: ChildOrder) -> subprocess.Popen[bytes]:
    """Start the process in its own process group, which keeps the terminal's Ctrl-C away from it."""
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, order.to_json()],
        env=tool_environment(),  # whoever looks into it, as a tool of the same user may, finds no key there
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        cwd=Path(__file__).parents[3],  # we are found there wherever the archiver runs
        pass_fds=(order.lock_fd, order.socket_fd, order.life_fd),
        process_group=0,
    )
