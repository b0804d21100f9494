"""Reads the arguments of a tool call, as models write them. Pure.

Models write JSON that is nearly right (`shared/lenient_json.py`), ``null`` for no arguments, an object that was made a
JSON text once more, the same object twice, an empty one before it. Such texts have one reading, and are read.
"""

import re
from json import JSONDecoder, dumps
from typing import Any

from pydantic_core import to_json

from pentad.contracts.plain_json import MOST_VALUES, read_json, values_in
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.lenient_json import MAX_MENDED, read_lenient, unfenced, without_mistakes

_MAX_WRAPPED = 2
"""How often an object may have been made a JSON text."""
_MAX_OBJECTS = 16
"""Objects one after the other that are looked at."""
_decoder = JSONDecoder()
_WHERE = re.compile(r" at line (\d+) column (\d+)$")
_SEND = "send one JSON object, with double quotes around names and texts and \\n for a line end within a text"


@immutable
class ParsedArguments:
    """A call's arguments as the model wrote them: an object, or the raw text and what is wrong with it."""

    args: dict[str, object] | None
    raw: str
    """The arguments as JSON; where they cannot be read, the model's text."""
    problem: str = ""


def parse_arguments(raw: str, most_values: int = MOST_VALUES) -> ParsedArguments:
    """Read a call's arguments; an empty text and ``null`` are an empty object. ``most_values``: more are not read."""
    text, found = unfenced(raw) or "{}", None
    for _ in range(_MAX_WRAPPED + 1):
        try:
            found, text = read_lenient(text, most_values)
        except ValueError as error:
            return _one_of_several(raw, text, error, most_values)
        if not isinstance(found, str):
            break
        text = found
    if found is None:
        return ParsedArguments({}, "{}")
    if not isinstance(found, dict):
        return ParsedArguments(None, raw, f"the arguments are not a JSON object: {_SEND}")
    return ParsedArguments(found, text)


def _one_of_several(raw: str, text: str, error: ValueError, most_values: int) -> ParsedArguments:
    """Arguments that are no single value: one object, when all are the same but for empty ones before it."""
    objects, rest = _objects(text, most_values) if len(text) <= MAX_MENDED else ([], "")
    if not objects:
        return ParsedArguments(None, raw, _in_words(text, error))
    if rest:
        near = clip(rest, 40)
        return ParsedArguments(None, raw, f"there is more after the object of the arguments, near {near!r}: {_SEND}")
    while len(objects) > 1 and not objects[0]:
        del objects[0]
    different = len({dumps(each, sort_keys=True) for each in objects})
    if different > 1:
        several = f"the arguments are {different} different JSON objects one after the other"
        return ParsedArguments(None, raw, f"{several}: make a call for each that you mean, and {_SEND}")
    return ParsedArguments(objects[0], to_json(objects[0]).decode())


def _objects(text: str, most_values: int) -> tuple[list[dict[str, Any]], str]:
    """The objects that a text begins with, one after the other, and what follows them."""
    text = without_mistakes(unfenced(text))
    if values_in(text, most_values) > most_values:
        return [], text
    objects: list[dict[str, Any]] = []
    while text and len(objects) < _MAX_OBJECTS:
        try:
            found, end = _decoder.raw_decode(text)
            if not isinstance(found, dict):
                break
            objects.append(read_json(text[:end], most_values))
        except (ValueError, RecursionError):
            break
        text = text[end:].lstrip()
    return objects, text


def _in_words(text: str, error: ValueError) -> str:
    """Describe what is wrong with the arguments, for the model that wrote them."""
    said = str(error)
    if said.startswith("EOF"):
        return f"the arguments are not JSON: they end before the object does; {_SEND}"
    where = _WHERE.search(said)
    if where is None:
        return f"the arguments are not JSON ({said}): {_SEND}"
    lines = text.split("\n", int(where[1]))
    near = lines[int(where[1]) - 1].encode()[max(0, int(where[2]) - 10) :][:40].decode(errors="replace")
    return f"the arguments are not JSON: what is wrong is near {clip(near, 40)!r}; {_SEND}"
