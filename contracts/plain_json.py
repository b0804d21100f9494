"""Reading of JSON that comes from outside, as RFC 8259 defines it."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

_STRICT = json.JSONEncoder(allow_nan=False)
_DIGITS_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE_NUMBER_MARKS = (b"0e", b"0" * 300)
"""Byte sequences, with all digits written as 0: each number beyond a double's range has one of them, and few texts
do."""
_LARGE_TEXT = 1 << 16
"""Characters from which on a text is read with the garbage collector off, and its strings are not searched for
numbers."""

_MARKS_PER_VALUE = 4
"""Quotation marks that one value has at most: two of its name and two of its own."""
_MAX_SEARCHED = 4 << 20
"""Characters of a text whose strings are found, to leave them out of the count."""
MOST_LEVELS = 100
"""Levels in which values of a message may be nested: JSON with 200 cannot be read, and mail wraps the message."""
MOST_VALUES = 50_000
"""Values that one text may have: to create, to serialise and to free so many takes about 30 ms each."""


@contextmanager
def collector_waits(text: bytes | str) -> Iterator[None]:
    """Turn the garbage collector off while the values of a large JSON text are created.

    The collector would go through all of them again and again: 1 MiB of empty arrays takes 60 ms with it, 12 ms
    without.
    """
    waits = len(text) > _LARGE_TEXT and gc.isenabled()
    if waits:
        gc.disable()
    try:
        yield
    finally:
        if waits:
            gc.enable()


def values_in(text: bytes | str, most: int) -> int:
    """Return about how many values a JSON text has, without creating them; above ``most`` the number is not exact.

    The signs before values are counted; if there are more than ``most``, once more without those inside strings. It
    takes long to leave out the strings of a text of many megabytes, or millions of strings: such a text counts as it
    is.
    """
    signs: Any = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    found: int = sum(map(text.count, signs))
    if found <= most or len(text) > _MAX_SEARCHED or _quotation_marks(text) > _MARKS_PER_VALUE * most + _LARGE_TEXT:
        return found
    return sum(map(_outside_texts(text).count, signs))


def _quotation_marks(text: bytes | str) -> int:
    """Return how many quotation marks begin or end a string in a JSON text, at least."""
    if isinstance(text, bytes):
        return text.count(b'"') - text.count(b'\\"')
    return text.count('"') - text.count('\\"')


def _outside_texts(text: bytes | str) -> Any:
    """Return a JSON text without its strings and names."""
    if isinstance(text, bytes):
        return b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    return "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])


def _may_be_too_large(numbers: bytes | str) -> bool:
    """Return whether a number in this JSON text could be beyond a double's range."""
    written = numbers.encode("utf-8", "replace") if isinstance(numbers, str) else numbers
    alike = written.translate(_DIGITS_ALIKE)
    return any(mark in alike for mark in _LARGE_NUMBER_MARKS)


def read_json(text: bytes | str, most_values: int | None = MOST_VALUES) -> Any:
    """Read a JSON text. Raises ``ValueError`` for a text that is not JSON or has more than ``most_values`` values.

    ``NaN`` and ``Infinity``, which many programs write, are refused, and so are numbers beyond a double's range, which
    would be read as infinite: neither could be written as JSON again. ``most_values`` may be None where reading may
    take long, because no event loop waits.
    """
    if most_values is not None and values_in(text, most_values) > most_values:
        raise ValueError(f"it has more than {most_values:,} values")
    with collector_waits(text):
        found = from_json(text, allow_inf_nan=False)
    numbers = text if len(text) <= _LARGE_TEXT else _outside_texts(text)
    if _may_be_too_large(numbers):
        try:
            _STRICT.encode(found)
        except ValueError:
            raise ValueError("a number in it is too large") from None
    return found


def is_deep(value: Any, most: int = MOST_LEVELS) -> bool:
    """Return whether JSON is nested in more levels than these."""
    level = [value]
    for _ in range(most + 1):
        level = [each for outer in level for each in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
