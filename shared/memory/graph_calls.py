"""The calls of the port `Graph` as they go over the bus. Pure."""

from collections.abc import Mapping

from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.memory.memory_calls import MemoryCall
from pentad.shared.owners import Owner

PREFIX = "graph."
"""Begins the names of its calls: those of the vectors have none."""


CALLS: Mapping[str, MemoryCall] = {
    f"{PREFIX}{name}": call
    for name, call in {
        "prepare": MemoryCall(None),
        "upsert_nodes": MemoryCall(None, list[MemoryNode]),
        "upsert_edges": MemoryCall(None, list[MemoryEdge]),
        "nodes": MemoryCall(list[MemoryNode], Owner, list[str]),
        "edges": MemoryCall(list[MemoryEdge], Owner, list[str], int),
        "links": MemoryCall(list[WalkedEdge], Owner, list[str], int, list[EdgeType], int | None),
        "between": MemoryCall(list[BareEdge], Owner, list[str], int, list[EdgeType], int | None),
        "named": MemoryCall(list[MemoryNode], Owner, list[str]),
        "end": MemoryCall(None, Owner, list[str], int),
        "remove": MemoryCall(None, Owner, list[str]),
        "retain": MemoryCall(None, str, str, list[str]),
        "forget_task": MemoryCall(None, str, str),
        "forget_user": MemoryCall(None, str, str),
        "forget_tenant": MemoryCall(None, str),
        "tally": MemoryCall(Tally, str),
        "node_page": MemoryCall(list[MemoryNode], str, int, str),
        "edge_page": MemoryCall(list[MemoryEdge], str, int, str),
    }.items()
}
"""By name. Owners are made anew on the other side, so none comes through without a tenant."""
