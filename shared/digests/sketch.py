"""A vector as a few hundred bytes: short enough to lie in a session's header, near enough to compare."""

import math
from collections.abc import Sequence
from operator import mul

from pentad.shared.immutable import immutable

MOST_DIMENSIONS = 384
"""A longer vector is folded: its pieces of this length are added, every other one taken away."""
MOST_MODEL_CHARS = 64
_MOST = 127
_LEAST = 1e-30
"""A vector whose every number is smaller is none."""


@immutable
class Sketch:
    """The direction of a vector, a byte for each dimension. Sketches of different models do not compare."""

    model: str
    values: bytes
    """Each -127 to 127, as `array("b")` writes it."""


def sketch_of(model: str, vector: Sequence[float]) -> Sketch | None:
    """A model's vector as a sketch; None for one that has no direction: empty, zero, or not of finite numbers."""
    return _quantised(model[:MOST_MODEL_CHARS], _folded(vector))


def likeness(one: Sketch, other: Sketch) -> float | None:
    """The cosine of two sketches, -1 to 1; None when they are of different models."""
    if one.model != other.model or len(one.values) != len(other.values):
        return None
    a, b = memoryview(one.values).cast("b"), memoryview(other.values).cast("b")
    return _dot(a, b) / math.sqrt(_dot(a, a) * _dot(b, b))


def blended(new: Sketch, old: Sketch | None, share: float) -> Sketch:
    """What was said last, with a share of what was said before it. Another model's past is forgotten."""
    if old is None or old.model != new.model or len(old.values) != len(new.values):
        return new
    a, b = memoryview(new.values).cast("b"), memoryview(old.values).cast("b")
    scale = share * math.sqrt(_dot(a, a) / _dot(b, b))
    return _quantised(new.model, [x + scale * y for x, y in zip(a, b, strict=True)]) or new


def _folded(vector: Sequence[float]) -> Sequence[float]:
    if len(vector) <= MOST_DIMENSIONS:
        return vector
    sums = [0.0] * MOST_DIMENSIONS
    for at, value in enumerate(vector):
        piece, place = divmod(at, MOST_DIMENSIONS)
        sums[place] += -value if piece % 2 else value
    return sums


def _quantised(model: str, vector: Sequence[float]) -> Sketch | None:
    largest = max(map(abs, vector), default=0.0)
    if largest < _LEAST or not all(map(math.isfinite, vector)):
        return None
    scale = _MOST / largest
    return Sketch(model, bytes(round(value * scale) & 0xFF for value in vector))


def _dot(a: memoryview, b: memoryview) -> int:
    return sum(map(mul, a, b))
