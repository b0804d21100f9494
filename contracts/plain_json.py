"""JSON of others, read as RFC 8259 has it."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

_STRICT = json.JSONEncoder(allow_nan=False)
_DIGITS_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE = (b"0e", b"0" * 300)
"""Bytes, digits taken for zeros, one of which every number beyond a double's range has in it, and few texts have."""
_LARGE_TEXT = 1 << 16
"""Characters of a text for which the garbage collector waits, and in whose texts no numbers are looked for."""

MOST_VALUES = 50_000
"""Values of one text: to make them, to write them down and to let them go is some 30 ms each."""


@contextmanager
def collector_waits(text: bytes | str) -> Iterator[None]:
    """Keep the garbage collector from looking through the values of a large JSON text while they are made.

    It would look through all of them again and again: 1 MiB of empty arrays takes 60 ms with it and 12 ms without.
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
    """How many values a JSON text has, about, told without making them; of more than ``most`` only that they are more.

    The signs before values are counted, and where they are too many once more without what stands within texts.
    """
    signs: Any = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    found: int = sum(map(text.count, signs))
    return found if found <= most else sum(map(_outside_texts(text).count, signs))


def _outside_texts(text: bytes | str) -> Any:
    """A JSON text without what its texts and names say."""
    if isinstance(text, bytes):
        return b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    return "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])


def _may_be_too_large(numbers: bytes | str) -> bool:
    """Whether a number of this JSON text could be beyond a double's range."""
    written = numbers.encode("utf-8", "replace") if isinstance(numbers, str) else numbers
    alike = written.translate(_DIGITS_ALIKE)
    return any(large in alike for large in _LARGE)


def read_json(text: bytes | str, most_values: int | None = MOST_VALUES) -> Any:
    """What a JSON text says. Raises ``ValueError`` for what is not JSON, and for more values than ``most_values``.

    No JSON is also ``NaN`` and ``Infinity``, which many writers put out, and a number beyond a double's range, which
    would be read as infinite: neither could be written down again as JSON. ``most_values``: None for any number, where
    nothing else waits.
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
