"""The definition of a registered tool: its description for the model, and how its arguments become a call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from pentad.contracts.tools import ToolSpec
from pentad.shared.lenient_json import read_lenient
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.results import clean

_MAX_PROBLEMS = 5
_MAX_ARGUMENTS = 1_000
"""Arguments that a call may have; the mistakes of a call with more are not looked for."""
_MAX_VALUE_CHARS = 200
_CONTAINER_MISTAKES = frozenset(
    "list_type dict_type tuple_type set_type frozen_set_type sequence_str model_type dataclass_type".split()
)
"""Kinds of mistakes (pydantic's words) that mean that a list or an object must stand there."""
_TYPE_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
"""Keywords of a JSON schema, each of which tells the type of a value."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that this process can call."""

    spec: ToolSpec
    function: Callable[..., Any]
    is_async: bool
    """Whether the tool runs on the event loop; else it needs a thread."""
    model: type[BaseModel]
    """The pydantic model that validates and coerces the arguments."""
    fields: Mapping[str, str]
    """The model's field names, each with the name of its parameter."""
    context_parameters: Sequence[str] = ()
    """Parameters that take the ``ToolContext``."""
    env: Sequence[str] = ()
    """Variables of the worker's environment that the tool may see."""

    @property
    def source(self) -> str:
        """The place where the tool is defined: ``module.function``."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for ``function``, without its context. Raises ``InvalidArguments``.

        Two mistakes are mended: a JSON text is read where a list or an object is asked for, and a null is left out
        where there is a default.
        """
        if len(args) > _MAX_ARGUMENTS:
            raise InvalidArguments(f"tool {self.spec.name!r}: {len(args)} arguments: it takes {self._taken()}")
        while True:
            try:
                found = self.model.model_validate(args)
            except ValidationError as error:
                fewer_mistakes = self._mended(args, error)
                if fewer_mistakes is None:
                    raise InvalidArguments(self._complaint(error)) from None
                args = fewer_mistakes
            except Exception as error:  # a validator of the user's may raise anything
                told = f"tool {self.spec.name!r}: its arguments could not be checked: {error}"
                raise InvalidArguments(told) from error
            else:
                return {self.fields[name]: getattr(found, name) for name in found.model_fields_set}

    def bind(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Validate the arguments as ``validate`` does, and add the context where it is asked for."""
        return self.validate(args) | dict.fromkeys(self.context_parameters, context)

    def _mended(self, args: dict[str, Any], error: ValidationError) -> dict[str, Any] | None:
        """Return the arguments without the mistakes that have one reading; None when there are none of these."""
        mended, changed = deepcopy(args), False
        optional = set(self.fields.values()).difference(self.spec.parameters.get("required", ()))
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        may_be_text = {problem["loc"][:-1] for problem in problems if problem["type"].startswith("string_")}
        for problem in problems:
            path = problem["loc"]
            if path and path[0] in optional and mended.get(str(path[0]), path) is None:
                del mended[str(path[0])]
                changed = True
            elif problem["type"] in _CONTAINER_MISTAKES and path[:-1] not in may_be_text:
                changed = _replace_json_text(mended, path) or changed
        return mended if changed else None

    def _complaint(self, error: ValidationError) -> str:
        problems = error.errors(include_url=False, include_context=False)
        told = "; ".join(self._problem(problem) for problem in problems[:_MAX_PROBLEMS])
        more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
        return clean(f"tool {self.spec.name!r}: {told}{more}")

    def _problem(self, problem: Any) -> str:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            return f"argument {where!r} is unknown: it takes {self._taken()}"
        if not where:
            return f"the arguments must be a JSON object, got {_shown(problem['input'])}"
        if problem["type"] == "missing":
            return f"argument {where!r} is missing{self._expected(problem['loc'])}"
        return f"argument {where!r}: {_lower(problem['msg'])}, got {_shown(problem['input'])}"

    def _taken(self) -> str:
        return ", ".join(self.fields.values()) or "no arguments"

    def _expected(self, loc: Sequence[Any]) -> str:
        """Return the type of a missing top-level argument, when its schema names one."""
        schema = self.spec.parameters.get("properties", {}).get(loc[0], {}) if len(loc) == 1 else {}
        return f": expected {schema['type']}" if "type" in schema else ""


def _replace_json_text(args: dict[str, Any], path: Sequence[Any]) -> bool:
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


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _shown(value: Any) -> str:
    text = repr(value[: _MAX_VALUE_CHARS + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + "..."


def description_gaps(spec: ToolSpec) -> Iterator[str]:
    """Yield a line for each thing that the model is not told of a tool; its author sees them when the worker starts."""
    if not spec.description:
        yield f"tool {spec.name!r} has no docstring: the model is told no more of it than its name"
    parameters: dict[str, Any] = spec.parameters.get("properties", {})
    for name, schema in parameters.items():
        if isinstance(schema, dict) and _TYPE_KEYWORDS.isdisjoint(schema):
            yield f"tool {spec.name!r}: parameter {name!r} has no type: the model may send anything for it"
