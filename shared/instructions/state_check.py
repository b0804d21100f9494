"""Checks the values of a graph's run against the schema of its state, as answers are checked against theirs."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.shared.instructions.output import Output
from pentad.shared.instructions.schema_check import WrongOutput
from pentad.shared.json_schema import WrongSchema

_REFERRED = ("$schema", "$id", "id", "$defs", "definitions")
"""Keywords of a schema that its properties may refer to; what else it says of the whole state need not hold yet."""
_NOT_CHECKED = frozenset({"reducer", "title", "description", "default", "examples", "$comment"})
"""Keywords of a property that say nothing about its value."""


def values_schema(state_schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the part of a state's schema that holds at all times, that of its single values; None if there is none.

    A run writes its state bit by bit, so a key that is ``required`` may come later.
    """
    if state_schema is None or not _checked_keys(state_schema):
        return None
    return {word: state_schema[word] for word in (*_REFERRED, "properties") if word in state_schema}


def _checked_keys(state_schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys whose values can be wrong."""
    return frozenset(
        key
        for key, schema in state_schema.get("properties", {}).items()
        if schema is False or (isinstance(schema, Mapping) and schema.keys() - _NOT_CHECKED)
    )


class StateCheck:
    """The schema of a graph's state, ready to check values."""

    def __init__(self, state_schema: Mapping[str, Any] | None) -> None:
        self._schema = values_schema(state_schema)
        self.keys = _checked_keys(self._schema) if self._schema is not None else frozenset()
        """Keys of the state whose values are checked."""
        self._output: Output | None = None

    async def problem(self, state: Mapping[str, Any]) -> str:
        """Return what is wrong with these values, with their places; '' if nothing is.

        The time is bounded, and the event loop is free meanwhile. Raises ``OutageError`` when the system has no room
        for a process that checks.
        """
        values = {key: value for key, value in state.items() if key in self.keys}
        if self._schema is None or not values:
            return ""
        try:
            if self._output is None:
                self._output = Output(self._schema)
            await self._output.read(to_json(values).decode())
        except WrongOutput as error:
            return f"the state does not fit the graph's state_schema: {error}"
        except WrongSchema as error:
            return str(error).replace("output_schema", "state_schema", 1)
        return ""
