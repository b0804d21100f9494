"""JSON schemas: compiled without anything from the network, and weighed before they are used.

The checker holds Python's lock as long as it works, and a schema can make it work for hours: with alternatives in
alternatives, with references to itself. `schema_weight` tells which schemas cannot.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jsonschema_rs
from pydantic_core import to_json

_MAX_MESSAGE_CHARS = 300
_MAX_PATTERN_BYTES = 50_000
"""Bytes of a compiled pattern of `compile_pattern`: what a text costs grows with them."""
_MAX_DFA_BYTES = 1 << 20
"""Bytes of what is remembered while a pattern is looked for. With few of them the search is a thousand times slower."""
_MAX_WEIGHT = 100_000
_MAX_DEPTH = 64
"""Levels of a schema that is weighed; a deeper one weighs too much."""
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
"""Keywords with values, which are no schemas."""
OPEN_KEYWORDS = frozenset({"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords that look at other schemas than those that they stand in."""
HEAVY_KEYWORDS = OPEN_KEYWORDS | {"pattern", "patternProperties"}
"""Keywords whose cost depends on more than the sizes of schema and value."""

SchemaMistake = jsonschema_rs.ValidationError
"""A place where a value does not fit its schema."""


class WrongSchema(ValueError):  # noqa: N818 - reads as what it is
    """The schema itself cannot be used. The text says why."""


def compile_schema(schema: Mapping[str, Any], named: str) -> jsonschema_rs.Validator:
    """Return the validator of a schema. References are not fetched, and patterns run in linear time.

    Raises ``WrongSchema`` for a wrong schema, under the name that its author knows it by.
    """
    try:
        return jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        message = str(getattr(error, "message", error)).partition("\n")[0]
        raise WrongSchema(f"{named} is no JSON schema: {shortened(message)}") from None


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a check whether a regular expression is found in a text: in linear time, of a few ms for 4 KiB.

    Raises ``WrongSchema`` for a wrong pattern, one with look-around or references back, and one that is too large when
    its repetitions are written out.
    """
    options = jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN_BYTES, dfa_size_limit=_MAX_DFA_BYTES)
    schema = {"type": "string", "pattern": pattern}
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=options).is_valid
    except (jsonschema_rs.ValidationError, ValueError) as error:
        message = str(getattr(error, "message", error)).partition("\n")[0]
        raise WrongSchema(f"the pattern cannot be used: {shortened(message)}") from None


def shortened(text: str) -> str:
    """Return a message about a schema or a value, cut where it is long."""
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[: _MAX_MESSAGE_CHARS - 1] + "…"


def schema_weight(schema: Mapping[str, Any], heavy: Collection[str] = HEAVY_KEYWORDS) -> int | None:
    """Return the greatest number of schemas against which a value is checked, with alternatives and references
    followed.

    It is None when the number depends on the value, or is too large. ``heavy``: keywords that have no weight.
    """
    return _Weighing(schema, heavy).weight()


class _Weighing:
    """Weighs each part of a schema that is referred to once; a part that refers to itself has no weight."""

    def __init__(self, schema: Mapping[str, Any], heavy: Collection[str]) -> None:
        self._schema, self._heavy = schema, heavy
        self._referred: dict[str, int | None] = {}

    def weight(self) -> int | None:
        weight = self._of(self._schema, 0)
        return weight if weight is not None and weight <= _MAX_WEIGHT else None

    def _of(self, part: Any, depth: int) -> int | None:
        if depth > _MAX_DEPTH:
            return None
        if isinstance(part, Mapping):
            if any(isinstance(part.get(word), str | Mapping) for word in self._heavy):
                return None
            refers = part.get("$ref")
            total = self._of_reference(refers, depth) if isinstance(refers, str) else 1
            inner = [
                (name in _VALUE_KEYWORDS, value) for name, value in part.items() if name not in ("$defs", "definitions")
            ]
        elif isinstance(part, list | tuple):
            total, inner = 1, [(False, value) for value in part]
        else:
            return 1
        for is_value, value in inner:
            added = len(to_json(value)) if is_value else self._of(value, depth + 1)
            if total is None or added is None or total > _MAX_WEIGHT:
                return None
            total += added
        return total

    def _of_reference(self, pointer: str, depth: int) -> int | None:
        if pointer not in self._referred:
            self._referred[pointer] = None  # what a part that refers to itself finds
            found = self._found(pointer)
            self._referred[pointer] = None if found is None else self._of(found, depth + 1)
        return self._referred[pointer]

    def _found(self, pointer: str) -> Any:
        found: Any = self._schema
        if not pointer.startswith("#/"):
            return None
        for name in pointer[2:].split("/"):
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found
