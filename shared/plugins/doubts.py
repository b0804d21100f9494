"""What a model will miss of a tool: told at the start, while its author is there to see it. Pure."""

from collections.abc import Iterator
from typing import Any

from pentad.contracts.tools import ToolSpec

_TYPES = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})


def doubts(spec: ToolSpec) -> Iterator[str]:
    """A line for each."""
    if not spec.description:
        yield f"tool {spec.name!r} has no docstring: the model is told no more of it than its name"
    parameters: dict[str, Any] = spec.parameters.get("properties", {})
    for name, schema in parameters.items():
        if isinstance(schema, dict) and _TYPES.isdisjoint(schema):
            yield f"tool {spec.name!r}: parameter {name!r} has no type: the model may send anything for it"
