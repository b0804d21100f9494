"""JSON of others, read as RFC 8259 has it."""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

_STRICT = json.JSONEncoder(allow_nan=False)
_LARGE = r"\d[eE]|(?<!\d)\d{300}"
"""What every number beyond a double's range has in it, and few texts have."""
_IN_BYTES, _IN_TEXT = re.compile(_LARGE.encode()), re.compile(_LARGE)
_LARGE_TEXT = 1 << 16
"""Characters of a text for which the garbage collector waits."""


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


def read_json(text: bytes | str) -> Any:
    """What a JSON text says. Raises ``ValueError`` for what is not JSON.

    That is also ``NaN`` and ``Infinity``, which many writers put out, and a number beyond a double's range, which would
    be read as infinite: neither could be written down again as JSON.
    """
    with collector_waits(text):
        found = from_json(text, allow_inf_nan=False)
    if (_IN_BYTES.search(text) if isinstance(text, bytes) else _IN_TEXT.search(text)) is not None:
        try:
            _STRICT.encode(found)
        except ValueError:
            raise ValueError("a number in it is too large") from None
    return found
