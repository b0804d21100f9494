"""The calls of the ports `Vectors` and `Graph` as they go to another process: types of arguments and results. Pure."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.immutable import immutable
from pentad.shared.memory.ranking import EmbeddedQuestion, MemoryHit
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Payload, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

MOST_REQUEST_BYTES = 8 << 20
"""Bytes of one request."""
MOST_REPLY_BYTES = 32 << 20
"""Bytes of one reply."""


def tenant_of(args: Any) -> str:
    """Return the tenant that a call is about, from its arguments as they are sent; '' where they name none.

    It only decides whose turn it is: what a call may see is decided by its arguments after they are parsed.
    """
    named = (_tenant_in(part) for part in (args if isinstance(args, list) else [args]))
    return next((tenant for tenant in named if tenant), "")


def _tenant_in(part: Any) -> str:
    """Return the tenant in an owner, a query, a question or the first of several points."""
    if isinstance(part, list):
        return _tenant_in(part[0]) if part else ""
    if not isinstance(part, dict):
        return ""
    inside = next((part[name] for name in ("question", "payload", "selection", "owner") if name in part), None)
    tenant = part.get("tenant")
    return tenant if isinstance(tenant, str) else _tenant_in(inside)


class MemoryCall:
    """A method of a port: ``gives`` is the type of its result, None for none; ``given`` are those of its arguments.

    Type adapters are made at the first call, so that starting a service does not wait for them.
    """

    def __init__(self, gives: Any, *given: Any) -> None:
        self._gives, self._given = gives, given

    @cached_property
    def given(self) -> TypeAdapter[Any]:
        """Adapter of the arguments, as a tuple."""
        arguments: Any = tuple.__class_getitem__(self._given)
        return TypeAdapter(arguments)

    @cached_property
    def gives(self) -> TypeAdapter[Any]:
        """Adapter of the result."""
        return TypeAdapter(self._gives)


POINTS_AT_ONCE = 32
"""Points of one request: that many with the longest vectors fit."""


QUESTIONS_AT_ONCE = 16
"""Questions of one request: replies with the longest hits of so many fit."""


@immutable
class FoundHits:
    """The hits of a search. A point that several queries found has its payload once."""

    payloads: dict[str, Payload]
    found: list[list[tuple[str, float]]]


VECTOR_CALLS: Mapping[str, MemoryCall] = {
    "prepare": MemoryCall(None, str, int),
    "switch": MemoryCall(None, str, str),
    "collections": MemoryCall(list[Collection]),
    "drop": MemoryCall(None, str),
    "upsert": MemoryCall(None, str, list[Point]),
    "search": MemoryCall(FoundHits, str, list[VectorQuery]),
    "rank": MemoryCall(list[MemoryHit], str, EmbeddedQuestion),
    "rank_each": MemoryCall(list[list[MemoryHit]], str, list[EmbeddedQuestion]),
    "get": MemoryCall(list[KeptPoint], str, Selection),
    "scroll": MemoryCall(PointPage, str, Selection, int, str | None),
    "count": MemoryCall(int, str, Selection),
    "tenants": MemoryCall(list[str], str),
    "delete": MemoryCall(None, str, Selection),
}
"""Calls of vectors by name. Selections are parsed again on the other side, so each has a tenant."""
CHILD_CALLS: Mapping[str, MemoryCall] = {
    **VECTOR_CALLS,
    "parts": MemoryCall(list[str]),
    "read_part": MemoryCall(str | None, str, str | None),
    "set_aside": MemoryCall(str, str),
}
"""Calls that the process with a store may make to its child; other services may not make the last three."""


def packed(hits: Sequence[Sequence[Hit]]) -> FoundHits:
    """Return hits as they are sent."""
    payloads = {hit.id: hit.payload for found in hits for hit in found}
    return FoundHits(payloads, [[(hit.id, hit.score) for hit in found] for found in hits])


def unpacked(found: FoundHits) -> list[list[Hit]]:
    """Return the hits that `packed` packed. Raises ``KeyError`` for a hit without a payload."""
    return [[Hit(name, score, found.payloads[name]) for name, score in hits] for hits in found.found]


GRAPH_PREFIX = "graph."
"""Prefix of the names of the graph's calls; those of vectors have none."""


GRAPH_CALLS: Mapping[str, MemoryCall] = {
    f"{GRAPH_PREFIX}{name}": call
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
"""Calls of the graph by name. Owners are parsed again on the other side, so each has a tenant."""
