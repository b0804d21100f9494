"""A JSON schema that the author of a tool gives instead of a signature with types."""

import inspect
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic_core import to_json

from pentad.shared.plugins.arguments import (
    complaint,
    expected,
    refuse_too_many,
    replace_json_text,
    replace_scalar_text,
    taken,
)
from pentad.shared.plugins.errors import InvalidArguments, PluginError

MAX_SCHEMA_BYTES = 32_768
"""Bytes that the schema of a tool's arguments may have."""
_MAX_MISTAKES = 100
"""Mistakes of one call that are looked for."""
_MAX_PASSES = 3
"""How often the arguments of one call are mended and checked again."""
_SHOWN_NAME = 100
"""Characters of an argument's name that are repeated."""
_CONTAINERS = frozenset({"array", "object", "null"})
"""Types of a place where a text can only be a list or an object that was written as one."""
_SCALARS = frozenset({"integer", "number", "boolean", "null"})
"""Types of a place where a text can only be a number, or true or false, that was written as one."""


@dataclass(frozen=True, slots=True)
class AcceptedNames:
    """The keyword arguments that a function accepts."""

    named: frozenset[str]
    needed: frozenset[str]
    """Names of those without a default."""
    any_name: bool
    """Whether it accepts others too, as ``**arguments``."""


@dataclass(frozen=True, slots=True)
class SchemaArguments:
    """The arguments that an explicit schema describes: JSON values, which are checked and not converted."""

    tool: str
    schema: dict[str, Any]
    accepted: AcceptedNames
    validator: Any
    """The compiled schema; None where the checker is not installed, as in a program that is only a client."""

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are, mended. Raises ``InvalidArguments``."""
        known = self.schema.get("properties", {})
        refuse_too_many(self.tool, args, known)
        if not self.accepted.any_name and (unknown := sorted(args.keys() - self.accepted.named)):
            name = unknown[0][:_SHOWN_NAME]
            raise InvalidArguments(f"tool {self.tool!r}: argument {name!r} is unknown: it takes {taken(known)}")
        passes = 0
        while mistakes := list(islice(self.validator.iter_errors(args), _MAX_MISTAKES)):
            passes += 1
            fewer_mistakes = self._mended(args, mistakes) if passes <= _MAX_PASSES else None
            if fewer_mistakes is None:
                raise InvalidArguments(complaint(self.tool, map(self._problem, mistakes), len(mistakes)))
            args = fewer_mistakes
        return args

    def _mended(self, args: dict[str, Any], mistakes: list[Any]) -> dict[str, Any] | None:
        """Return the arguments without the mistakes that have one reading; None when there are none of these."""
        mended, changed = deepcopy(args), False
        for mistake in mistakes:
            path = list(mistake.instance_path)
            if len(path) == 1 and mistake.instance is None and path[0] not in self.schema.get("required", ()):
                changed = mended.pop(path[0], self) is None or changed
            elif isinstance(mistake.instance, str) and _asks_for(mistake, _CONTAINERS):
                changed = replace_json_text(mended, path) or changed
            elif isinstance(mistake.instance, str) and path and _asks_for(mistake, _SCALARS):
                changed = replace_scalar_text(mended, path, mistake.kind.types) or changed
        return mended if changed else None

    def _problem(self, mistake: Any) -> str:
        from pentad.shared.json_schema import shortened

        path, kind = [str(part) for part in mistake.instance_path], mistake.kind
        if kind.name == "required" and not path:
            return f"argument {kind.property!r} is missing{expected(self.schema, [kind.property])}"
        if kind.name == "additionalProperties" and not path:
            known = taken(self.schema.get("properties", {}))
            return f"argument {str(kind.unexpected[0])[:_SHOWN_NAME]!r} is unknown: it takes {known}"
        where = f"argument {'.'.join(path)[:_SHOWN_NAME]!r}" if path else "the arguments"
        return f"{where}: {shortened(mistake.message)}"


def _asks_for(mistake: Any, types: frozenset[str]) -> bool:
    """Whether something of these types must stand where the mistake is, and no text may."""
    return mistake.kind.name == "type" and set(mistake.kind.types) <= types


def arguments_of_schema(tool: str, parameters: Any, accepted: AcceptedNames) -> SchemaArguments:
    """Return the arguments of a tool that its author describes by a schema. Raises ``PluginError``."""
    schema = _plain(tool, parameters)
    if schema.get("type") != "object":
        raise _wrong(tool, 'its "type" must be "object": a model gives the arguments as one JSON object')
    known = schema.setdefault("properties", {})
    if not isinstance(known, dict):
        raise _wrong(tool, '"properties" must be an object, with the schema of each argument')
    validator = _compiled(tool, schema)
    required = schema.get("required", [])
    if not accepted.any_name and (unknown := sorted(known.keys() - accepted.named)):
        raise _wrong(
            tool, f"the function has no parameter {unknown[0]!r} for a property: add it, or take **arguments as a whole"
        )
    if optional := sorted(accepted.needed.difference(required)):
        raise _wrong(
            tool,
            f"the function's parameter {optional[0]!r} has no default and is not in its "
            '"required": give it a default, or require it',
        )
    return SchemaArguments(tool, schema, accepted, validator)


def arguments_alone(tool: str, parameters: Mapping[str, Any]) -> SchemaArguments:
    """Return the arguments of a tool that is no function of Python. Names that its schema does not have are refused,
    unless it says more about them. Raises ``PluginError``."""
    known = parameters.get("properties")
    names = frozenset(known) if isinstance(known, Mapping) else frozenset[str]()
    any_name = bool(parameters.get("additionalProperties") or parameters.get("patternProperties"))
    return arguments_of_schema(tool, parameters, AcceptedNames(names, frozenset(), any_name))


def _plain(tool: str, parameters: Any) -> dict[str, Any]:
    """Return a copy of the schema that nobody can change, and that is nothing but JSON."""
    if not isinstance(parameters, Mapping):
        raise _wrong(tool, f"it must be a JSON schema as a dict, not {type(parameters).__name__}")
    try:
        text = json.dumps(parameters, allow_nan=False)
        size = len(to_json(parameters))
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(tool, f"it is not JSON ({str(error)[:_SHOWN_NAME]})") from None
    if size > MAX_SCHEMA_BYTES:
        raise _wrong(tool, f"it has {size} bytes: at most {MAX_SCHEMA_BYTES}")
    plain: dict[str, Any] = json.loads(text)
    return plain


def _compiled(tool: str, schema: dict[str, Any]) -> Any:
    """Return the validator of a schema. None where the checker is not installed: no tool is called there."""
    try:
        from pentad.shared.json_schema import OPEN_KEYWORDS, WrongSchema, compile_schema, schema_weight
    except ModuleNotFoundError:
        return None
    if schema_weight(schema, OPEN_KEYWORDS) is None:
        raise _wrong(
            tool,
            "a check against it could take for ever: give it fewer alternatives within each other, at most 64 levels, "
            "and no reference to itself or to anything but its own $defs",
        )
    try:
        return compile_schema(schema, "it")
    except WrongSchema as error:
        raise _wrong(tool, str(error)) from None


def _wrong(tool: str, problem: str) -> PluginError:
    return PluginError(f"tool {tool!r}: parameters=: {problem}")


def accepted_by(tool: str, function: Callable[..., Any], context: tuple[str, ...], skipped: int) -> AcceptedNames:
    """Return the keyword arguments that a function accepts, its context aside, without its first parameters.

    Raises ``PluginError``.
    """
    named, needed, any_name = set[str](), set[str](), False
    for parameter in list(inspect.signature(function).parameters.values())[skipped:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            any_name = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise PluginError(f"tool {tool!r}: parameter '{parameter}' takes no argument by name: remove the * or /")
        elif parameter.name not in context:
            named.add(parameter.name)
            if parameter.default is parameter.empty:
                needed.add(parameter.name)
    return AcceptedNames(frozenset(named), frozenset(needed), any_name)
