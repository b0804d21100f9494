"""Frames between an archiver and the child process that has the embedded store open.

A frame is a length (4 bytes, big-endian) and so many bytes. A request is a frame of JSON, ``[call, arguments]``, and
for ``upsert`` a second one with the numbers of the points' vectors, as both sides keep them in memory. An answer is one
frame: ``+`` and the result as JSON, or ``-`` and ``[kind, text]``. There is one for each request, in their order.
"""

import struct
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.shared.errors import (
    DamagedError,
    MemoryDamagedError,
    MemoryOutageError,
    MemoryRefusedError,
    PentadError,
    SettingsError,
)
from pentad.shared.vectors.points import Dense, Point, Sparse, SparseVector
from pentad.shared.vectors.stored_payload import from_stored, to_stored

HEAD = 4
MOST_BYTES = 32 << 20
"""Of a frame."""
_ERRORS: dict[str, type[PentadError]] = {
    "refused": MemoryRefusedError, "unusable": MemoryDamagedError, "outage": MemoryOutageError,
    "damaged": DamagedError, "settings": SettingsError,
}  # fmt: skip
"""The first that fits: some are kinds of those behind them."""


def framed(body: bytes) -> bytes:
    """A frame. Raises ``MemoryRefusedError`` for one that is too long."""
    if len(body) > MOST_BYTES:
        raise MemoryRefusedError(f"{len(body)} bytes at once: {MOST_BYTES} at most; ask for less")
    return len(body).to_bytes(HEAD, "big") + body


def request_of(call: str, arguments: Any) -> bytes:
    """A request's frame. ``arguments``: as JSON can say them."""
    return framed(to_json([call, arguments]))


def points_told(points: Sequence[Point]) -> tuple[list[Any], bytes]:
    """Points as JSON can say them, and the numbers of their vectors."""
    numbers = bytearray()
    return [_told(point, numbers) for point in points], bytes(numbers)


def points_heard(told: Sequence[Any], numbers: bytes) -> list[Point]:
    """The inverse of `points_told`. Raises ``ValueError`` and the like for what that has not told."""
    at = _Numbers(numbers)
    return [
        Point(
            name,
            from_stored(name, stored),
            {Dense(using): at.reals(length) for using, length in dense},
            {Sparse(using): SparseVector(at.wholes(length), at.reals(length)) for using, length in sparse},
        )
        for name, stored, dense, sparse in told
    ]


def answered(result: bytes) -> bytes:
    """The frame of an answer. ``result``: as JSON."""
    return framed(b"+" + result)


def failed(error: Exception) -> bytes:
    """The frame of an answer that is none."""
    kind = next((kind for kind, each in _ERRORS.items() if isinstance(error, each)), "outage")
    text = str(error) if isinstance(error, PentadError) else f"the embedded memory fails: {error!r}"
    return framed(b"-" + to_json([kind, text], inf_nan_mode="constants"))


def result_of(answer: bytes) -> bytes:
    """The result as JSON. Raises the error that was answered, ``MemoryOutageError`` for what is no answer."""
    if answer[:1] == b"+":
        return answer[1:]
    try:
        kind, text = from_json(answer[1:])
        error = _ERRORS[kind](str(text))
    except (ValueError, KeyError, TypeError, ValidationError):
        error = MemoryOutageError("the process that has the memory open answers what cannot be read")
    raise error


def _told(point: Point, numbers: bytearray) -> list[Any]:
    for vector in point.dense.values():
        numbers += struct.pack(f"{len(vector)}f", *vector)
    for terms in point.sparse.values():
        count = len(terms.indices)
        numbers += struct.pack(f"{count}I{count}f", *terms.indices, *terms.values)
    dense = [[using, len(vector)] for using, vector in point.dense.items()]
    sparse = [[using, len(terms.indices)] for using, terms in point.sparse.items()]
    return [point.id, to_stored(point.payload), dense, sparse]


class _Numbers:
    """Numbers of four bytes, one after the other."""

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
