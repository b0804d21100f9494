"""Finds mistakes in a graph that no node or edge shows by itself. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pentad.contracts.graph_nodes import Edge, Node, Reducer

_REDUCERS: Mapping[Any, Reducer] = {name: name for name in get_args(Reducer)}


def declared_reducers(state_schema: Mapping[str, Any] | None) -> Mapping[str, Reducer]:
    """Return the reducers that the schema of a state declares, by the keys of the state."""
    properties = (state_schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    named = {key: str(each.get("reducer")) for key, each in properties.items() if isinstance(each, Mapping)}
    return {key: _REDUCERS[name] for key, name in named.items() if name in _REDUCERS}


def problems_of(
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    entry: str,
    ends: Sequence[str],
    state_schema: Mapping[str, Any] | None,
) -> list[str]:
    """Return the mistakes of a graph in words, each with its place; an empty list for a sound graph."""
    keys = [node.key for node in nodes]
    return [f"nodes: two have the key {key!r}" for key in dict.fromkeys(keys) if keys.count(key) > 1]
