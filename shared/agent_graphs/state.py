"""The state of a graph's run: values are written to it, read from it, and compared. Pure."""

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.graph_nodes import MAX_STATE, Comparison, Reducer
from pentad.shared.agent_graphs.run import Writes

State = Mapping[str, Any]
_INDEX = re.compile(r"-1|[0-9]{1,9}")
"""Index of a list's item."""
_PATH = re.compile(r"state(?:\.[A-Za-z0-9_-]{1,64}){1,8}")
_PLACEHOLDER = re.compile(r"\{\{ *(state(?:\.[A-Za-z0-9_-]{1,64}){1,8}) *\}\}")


class StateError(ValueError):
    """A place that the state does not have, a value that does not fit, or a state that is too large."""


def written(first: State, writes: Writes, reducers: Mapping[str, Reducer]) -> State:
    """Return the state after these writes. Raises ``StateError``."""
    state = dict(first)
    for key, value in writes:
        state[key] = _JOINS[reducers.get(key, "replace")](key, state.get(key), value)
    if len(to_json(state)) > MAX_STATE:
        raise StateError(f"the state has more than {MAX_STATE:,} bytes: write less, or references")
    return state


def _replaced(_: str, __: Any, value: Any) -> Any:
    return value


def _appended(key: str, before: Any, value: Any) -> Any:
    if before is not None and not isinstance(before, list):
        raise StateError(f"state.{key} is {_kind(before)}: the reducer append needs a list")
    return [*(before or []), *(value if isinstance(value, list) else [value])]


def _merged(key: str, before: Any, value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(before, Mapping | None):
        wrong = value if not isinstance(value, Mapping) else before
        raise StateError(f"state.{key} is {_kind(wrong)}: the reducer merge needs objects")
    return {**(before or {}), **value}


def _summed(key: str, before: Any, value: Any) -> Any:
    for each in (before or 0, value):
        if isinstance(each, bool) or not isinstance(each, int | float):
            raise StateError(f"state.{key} is {_kind(each)}: the reducer sum needs numbers")
    return (before or 0) + value


_JOINS: Mapping[Reducer, Callable[[str, Any, Any], Any]] = MappingProxyType(
    {"replace": _replaced, "append": _appended, "merge": _merged, "sum": _summed}
)


def value_at(state: State, path: str) -> Any:
    """Return the value at a place such as ``state.items.0``; ``-1`` is the last of a list.

    Raises ``StateError`` if there is none.
    """
    found: Any = state
    for part in path.split(".")[1:]:
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and _INDEX.fullmatch(part) and int(part) < len(found) > 0:
            found = found[int(part)]
        else:
            raise StateError(f"the state has no {path}")
    return found


def rendered(value: Any, state: State) -> Any:
    """Return a JSON value with its places of the state filled in.

    A text that is one place stands for the value there; in other texts, ``{{state.PATH}}`` does. Raises
    ``StateError``.
    """
    if isinstance(value, str):
        return value_at(state, value) if _PATH.fullmatch(value) else rendered_text(value, state)
    if isinstance(value, Mapping):
        return {name: rendered(each, state) for name, each in value.items()}
    if isinstance(value, list):
        return [rendered(each, state) for each in value]
    return value


def rendered_text(text: str, state: State) -> str:
    """Return a text with ``{{state.PATH}}`` filled in. Raises ``StateError``."""
    return _PLACEHOLDER.sub(lambda found: as_text(value_at(state, found[1])), text)


def as_text(value: Any) -> str:
    """Return a value of the state as a text: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def as_value(text: str) -> Any:
    """Return the JSON value that a text is, or the text itself."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def holds(state: State, comparisons: Mapping[str, Mapping[Comparison, Any]]) -> bool:
    """Return whether all comparisons hold. What cannot be compared, or is not there, does not hold."""
    return all(_compares(state, path, by, value) for path, each in comparisons.items() for by, value in each.items())


def _compares(state: State, path: str, by: Comparison, value: Any) -> bool:
    try:
        found = value_at(state, path)
    except StateError:
        return by == "exists" and value is False
    try:
        return bool(_COMPARES[by](found, value))
    except TypeError:
        return False


def _equal(found: Any, value: Any) -> bool:
    """Compare two values; true is not 1."""
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare two numbers or two texts; true and false are no numbers."""

    def compared(found: Any, value: Any) -> bool:
        if isinstance(found, bool) or isinstance(value, bool):
            raise TypeError
        return compare(found, value)

    return compared


_COMPARES: Mapping[Comparison, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "==": _equal,
        "!=": lambda found, value: not _equal(found, value),
        "<": _ordered(operator.lt),
        "<=": _ordered(operator.le),
        ">": _ordered(operator.gt),
        ">=": _ordered(operator.ge),
        "in": lambda found, value: found in value,
        "contains": lambda found, value: value in found,
        "exists": lambda found, value: value is True,
    }
)


def _kind(value: Any) -> str:
    """Name the JSON type of a value with its article."""
    names = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
