"""Values between a program and the tools that it calls: arguments as JSON, results as Python values. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.suspensions import InnerResult
from pentad.shared.plugins.results import clean

MAX_ARGUMENT_BYTES = 64 * 1024
"""Bytes of the arguments of one call, as JSON."""
_MAX_DEPTH = 64
"""Levels of lists and dicts in an argument."""


class UnfitArgumentsError(ValueError):
    """A tool cannot be called with these arguments. The text says why, for the program's author."""


def named_arguments(
    tool: str, positional: Sequence[Any], named: Mapping[str, Any], parameters: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a call by name, as JSON values. Raises ``UnfitArgumentsError``.

    ``parameters``: the names of the tool's parameters in their order, as far as they are known.
    """
    if len(positional) > len(parameters):
        why = f"has {len(parameters)} parameters" if parameters else "takes arguments by name"
        raise UnfitArgumentsError(f"{tool}() {why}, and {len(positional)} were given without a name: {tool}(name=...)")
    args = dict(zip(parameters, positional, strict=False))
    if twice := [name for name in args if name in named]:
        raise UnfitArgumentsError(f"{tool}() was given {twice[0]!r} twice")
    args = {name: _as_json(tool, name, value, _MAX_DEPTH) for name, value in {**args, **named}.items()}
    if (size := len(to_json(args))) > MAX_ARGUMENT_BYTES:
        raise UnfitArgumentsError(f"the arguments of {tool}() have {size:,} bytes, the limit is {MAX_ARGUMENT_BYTES:,}")
    return args


def _as_json(tool: str, name: str, value: Any, deeper: int) -> Any:
    """Return a value as JSON has it, dates and paths as texts. Raises ``UnfitArgumentsError`` for any other."""
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | PurePath):
        return str(value)
    if isinstance(value, list | tuple | dict) and not deeper:
        raise UnfitArgumentsError(f"the argument {name!r} of {tool}() has more than {_MAX_DEPTH} levels")
    if isinstance(value, list | tuple):
        return [_as_json(tool, name, each, deeper - 1) for each in value]
    if isinstance(value, dict):
        return {_key(tool, name, key): _as_json(tool, name, each, deeper - 1) for key, each in value.items()}
    shown = value if isinstance(value, float) else f"a {type(value).__name__}"
    raise UnfitArgumentsError(
        f"the argument {name!r} of {tool}() holds {shown}, which JSON does not have: give text, numbers, lists or dicts"
    )


def _key(tool: str, name: str, key: Any) -> str:
    if isinstance(key, str):
        return clean(key)
    if isinstance(key, int):
        return str(key)
    raise UnfitArgumentsError(f"the argument {name!r} of {tool}() has a dict whose keys are no texts")


def value_of(result: InnerResult) -> Any:
    """Return a tool's result as the program gets it: the value of what is JSON, any other text as it is."""
    try:
        return from_json(result.text, allow_inf_nan=False)
    except ValueError:
        return result.text


def json_of(value: Any, shown: Callable[[Any], Any]) -> str:
    """Return a program's result as JSON. ``shown``: tells what stands for an object that JSON has not."""
    try:
        return to_json(value, inf_nan_mode="strings", fallback=shown).decode()
    except ValueError as error:  # deeper than JSON is written
        return to_json(f"(a {type(value).__name__} that cannot become JSON: {error})").decode()
