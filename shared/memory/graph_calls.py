"""The calls of the port `Graph` as they go over the bus. Pure."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.memory.memory_calls import NOTHING, MemoryCall
from pentad.shared.owners import Owner

PREFIX = "graph."
"""Begins the names of its calls: those of the vectors have none."""


def _call(gives: Any, *given: Any) -> MemoryCall:
    arguments: Any = tuple.__class_getitem__(given)
    return MemoryCall(TypeAdapter(arguments), NOTHING if gives is None else TypeAdapter(gives))


CALLS: Mapping[str, MemoryCall] = {
    f"{PREFIX}{name}": call
    for name, call in {
        "prepare": _call(None),
        "upsert_nodes": _call(None, list[MemoryNode]),
        "upsert_edges": _call(None, list[MemoryEdge]),
        "nodes": _call(list[MemoryNode], Owner, list[str]),
        "edges": _call(list[MemoryEdge], Owner, list[str], int),
        "links": _call(list[WalkedEdge], Owner, list[str], int, list[EdgeType], int | None),
        "named": _call(list[MemoryNode], Owner, list[str]),
        "end": _call(None, Owner, list[str], int),
        "remove": _call(None, Owner, list[str]),
        "retain": _call(None, str, str, list[str]),
        "forget_task": _call(None, str, str),
        "forget_user": _call(None, str, str),
        "forget_tenant": _call(None, str),
        "tally": _call(Tally, str),
        "node_page": _call(list[MemoryNode], str, int, str),
        "edge_page": _call(list[MemoryEdge], str, int, str),
    }.items()
}
"""By name. Owners are made anew on the other side, so none comes through without a tenant."""
