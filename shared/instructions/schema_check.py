"""Checks a model's answer against a JSON schema: which of the JSON values in it fits, or what is wrong with them.

The checker holds Python's lock as long as it works, and a schema can make it work for hours: with alternatives in
alternatives, with references to itself, with patterns. `schema_weight` tells which schemas cannot.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
from pydantic_core import to_json

from pentad.shared.instructions.json_values import find_values
from pentad.shared.lenient_json import read_lenient

MAX_ANSWER = 524_288
"""Bytes of an answer that must be JSON."""
_MAX_WRAPPED = 2
"""How often a value may have been made a JSON text."""
_MOST_PROBLEMS = 5
_MOST_CHARS = 300
_MOST_WEIGHT = 100_000
_MOST_DEPTH = 64
"""Levels of a schema that is weighed; more weigh too much."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords with values, which are no schemas."""
_HEAVY = ("$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties")
"""Keywords whose cost depends on more than the sizes of schema and value."""
_PROBES: tuple[Any, ...] = (None, 0, "", [], {})
"""Values that a schema is tried with when it is registered."""


class WrongOutput(ValueError):  # noqa: N818 - reads as what it is
    """The answer is not what the schema asks for. The text says why, for the model that is asked again."""


class WrongSchema(ValueError):  # noqa: N818 - reads as what it is
    """The schema itself cannot be used. The text says why."""


class SchemaCheck:
    """One schema, ready to be used. Everything here runs in the calling thread, for as long as it takes."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises ``WrongSchema``. Nothing that the schema refers to is fetched, and patterns run in linear time."""
        try:
            self._validator = jsonschema_rs.validator_for(
                dict(schema), offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise WrongSchema(f"output_schema is no JSON schema: {_short(_message(error))}") from None

    def probe(self) -> None:
        """Check a few small values, so that a schema that takes for ever does so where it is registered."""
        for value in _PROBES:
            next(iter(self._validator.iter_errors(value)), None)

    def fitting(self, text: str) -> str:
        """The one value of the answer that fits, written down as JSON; also one that was made a JSON text.

        Raises ``WrongOutput``.
        """
        if len(text) > MAX_ANSWER or len(text.encode("utf-8", "replace")) > MAX_ANSWER:
            raise WrongOutput(f"it has more than {MAX_ANSWER} bytes")
        try:
            found = find_values(text)
        except ValueError as error:
            raise WrongOutput(str(error)) from None
        values = found.values
        fits = self._fits(values)
        if not fits and (inner := _in_texts(values)):
            values, fits = inner, self._fits(inner)
        if len(fits) == 1:
            return to_json(fits[0]).decode()
        if fits:
            raise WrongOutput(
                f"{len(fits)} JSON values in it fit the schema: answer with one JSON value and no other text"
            )
        if not values:
            raise WrongOutput(f"it is not JSON: {_short(found.problem)}")
        raise WrongOutput(self._problems(values[-1], len(values)))

    def _fits(self, values: Sequence[Any]) -> list[Any]:
        return [value for value in values if self._validator.is_valid(value)]

    def _problems(self, value: Any, count: int) -> str:
        wrong = islice(self._validator.iter_errors(value), _MOST_PROBLEMS)
        problems = "; ".join(f"{_where(each)}: {_short(each.message)}" for each in wrong)
        return problems if count == 1 else f"none of the {count} JSON values in it fits; of the last one, {problems}"


def schema_weight(schema: Mapping[str, Any]) -> int | None:
    """How many schemas a value is held against at most, alternatives and references followed.

    None: it depends on the value, or is too large to say.
    """
    return _Weighing(schema).weight()


class _Weighing:
    """Weighs each part that is referred to once; a part that refers to itself has no weight."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._referred: dict[str, int | None] = {}

    def weight(self) -> int | None:
        weight = self._of(self._schema, 0)
        return weight if weight is not None and weight <= _MOST_WEIGHT else None

    def _of(self, part: Any, depth: int) -> int | None:
        if depth > _MOST_DEPTH:
            return None
        if isinstance(part, Mapping):
            if any(isinstance(part.get(word), str | Mapping) for word in _HEAVY):
                return None
            refers = part.get("$ref")
            total = self._of_reference(refers, depth) if isinstance(refers, str) else 1
            inner = [(name in _VALUES, value) for name, value in part.items() if name not in ("$defs", "definitions")]
        elif isinstance(part, list | tuple):
            total, inner = 1, [(False, value) for value in part]
        else:
            return 1
        for is_value, value in inner:
            added = len(to_json(value)) if is_value else self._of(value, depth + 1)
            if total is None or added is None or total > _MOST_WEIGHT:
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


def _in_texts(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values that texts among these are JSON of; a text may have been made one twice."""
    found: dict[str, Any] = {}
    for value in values:
        inner = value
        for _ in range(_MAX_WRAPPED):
            if isinstance(inner, str):
                try:
                    inner, _json = read_lenient(inner)
                except ValueError:
                    break
        if inner is not value:
            found.setdefault(repr(inner), inner)
    return tuple(found.values())


def _where(wrong: jsonschema_rs.ValidationError) -> str:
    return _short("/".join(str(part) for part in wrong.instance_path)) or "the value"


def _message(error: Exception) -> str:
    return str(getattr(error, "message", error)).partition("\n")[0]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
