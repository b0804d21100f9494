"""The arguments of a call: checked, converted and mended before the tool's function gets them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from pentad.shared.lenient_json import read_lenient
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.results import clean

MAX_ARGUMENTS = 1_000
"""Arguments that a call may have; the mistakes of a call with more are not looked for."""
_MAX_PROBLEMS = 5
_MAX_VALUE_CHARS = 200
_MAX_SCALAR_CHARS = 100
"""Characters of a text that may be a number."""
_CONTAINER_MISTAKES = frozenset(
    "list_type dict_type tuple_type set_type frozen_set_type sequence_str model_type dataclass_type".split()
)
"""Kinds of mistakes (pydantic's words) that mean that a list or an object must stand there."""


class ToolArguments(Protocol):
    """The arguments that a tool takes."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that the model is told."""

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the tool's function. Raises ``InvalidArguments``.

        Two mistakes are mended: a JSON text is read where a list or an object is asked for, and a null is left out
        where there is a default.
        """


@dataclass(frozen=True, slots=True)
class SignatureArguments:
    """The arguments that the signature of a function describes: a pydantic model checks and converts them."""

    tool: str
    model: type[BaseModel]
    fields: Mapping[str, str]
    """The model's field names (which never clash with pydantic's own), each with its parameter's name."""
    schema: dict[str, Any]

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments, converted. Raises ``InvalidArguments``."""
        refuse_too_many(self.tool, args, self.fields.values())
        while True:
            try:
                found = self.model.model_validate(args)
            except ValidationError as error:
                fewer_mistakes = self._mended(args, error)
                if fewer_mistakes is None:
                    raise InvalidArguments(self._complaint(error)) from None
                args = fewer_mistakes
            except Exception as error:  # a validator of the user's may raise anything
                told = f"tool {self.tool!r}: its arguments could not be checked: {error}"
                raise InvalidArguments(told) from error
            else:
                return {self.fields[name]: getattr(found, name) for name in found.model_fields_set}

    def _mended(self, args: dict[str, Any], error: ValidationError) -> dict[str, Any] | None:
        """Return the arguments without the mistakes that have one reading; None when there are none of these."""
        mended, changed = deepcopy(args), False
        optional = set(self.fields.values()).difference(self.schema.get("required", ()))
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        may_be_text = {problem["loc"][:-1] for problem in problems if problem["type"].startswith("string_")}
        for problem in problems:
            path = problem["loc"]
            if path and path[0] in optional and mended.get(str(path[0]), path) is None:
                del mended[str(path[0])]
                changed = True
            elif problem["type"] in _CONTAINER_MISTAKES and path[:-1] not in may_be_text:
                changed = replace_json_text(mended, path) or changed
        return mended if changed else None

    def _complaint(self, error: ValidationError) -> str:
        problems = error.errors(include_url=False, include_context=False)
        return complaint(self.tool, (self._problem(problem) for problem in problems), len(problems))

    def _problem(self, problem: Any) -> str:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            return f"argument {where!r} is unknown: it takes {taken(self.fields.values())}"
        if not where:
            return f"the arguments must be a JSON object, got {_shown(problem['input'])}"
        if problem["type"] == "missing":
            return f"argument {where!r} is missing{expected(self.schema, problem['loc'])}"
        return f"argument {where!r}: {_lower(problem['msg'])}, got {_shown(problem['input'])}"


def refuse_too_many(tool: str, args: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise ``InvalidArguments`` for a call with more arguments than are looked at."""
    if len(args) > MAX_ARGUMENTS:
        raise InvalidArguments(f"tool {tool!r}: {len(args)} arguments: it takes {taken(known)}")


def taken(names: Iterable[str]) -> str:
    """Return the arguments that a tool takes, in words."""
    return ", ".join(names) or "no arguments"


def complaint(tool: str, problems: Iterable[str], count: int) -> str:
    """Return the text that tells a model the mistakes of its call; of many, the first."""
    told = "; ".join(problem for _, problem in zip(range(_MAX_PROBLEMS), problems, strict=False))
    more = f"; and {count - _MAX_PROBLEMS} more" if count > _MAX_PROBLEMS else ""
    return clean(f"tool {tool!r}: {told}{more}")


def expected(schema: Mapping[str, Any], path: Sequence[Any]) -> str:
    """Return the type of a missing top-level argument, when its schema names one."""
    found = schema.get("properties", {}).get(path[0], {}) if len(path) == 1 else {}
    return f": expected {found['type']}" if isinstance(found, Mapping) and "type" in found else ""


def replace_json_text(args: dict[str, Any], path: Sequence[Any]) -> bool:
    """Replace a text at this place by the list or object that it is in JSON, and return whether it was one.

    A path ends with names of types where several are allowed.
    """
    held: Any = args
    try:
        for step in path:
            if isinstance(held[step], str):
                found, _json = read_lenient(held[step])
                if isinstance(found, list | dict):
                    held[step] = found
                return held[step] is found
            held = held[step]
    except (LookupError, TypeError, ValueError):
        return False
    return False


def replace_scalar_text(args: dict[str, Any], path: Sequence[Any], types: Collection[str]) -> bool:
    """Replace a text at this place by the number, or the true or false, that it is in JSON, and return whether it was
    one. ``types``: names of the JSON types that may stand there.
    """
    held: Any = args
    try:
        for step in path[:-1]:
            held = held[step]
        text = held[path[-1]]
        found = from_json(text.strip()) if len(text) <= _MAX_SCALAR_CHARS else text
    except (LookupError, TypeError, ValueError, AttributeError):
        return False
    if not _json_types(found) & {*types}:
        return False
    held[path[-1]] = found
    return True


def _json_types(value: Any) -> set[str]:
    """Return the names of the JSON types that a number, or true or false, is of; none for any other value."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int):
        return {"integer", "number"}
    return {"number"} if isinstance(value, float) and isfinite(value) else set()


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _shown(value: Any) -> str:
    text = repr(value[: _MAX_VALUE_CHARS + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + "..."
