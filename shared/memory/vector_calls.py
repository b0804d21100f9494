"""The calls of the ports of vectors as they go to another process: what goes in and what comes out."""

from collections.abc import Mapping, Sequence

from pentad.shared.immutable import immutable
from pentad.shared.memory.memory_calls import MemoryCall
from pentad.shared.memory.ranking import MemoryRanking, RankedMemories
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Payload, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

POINTS_AT_ONCE = 32
"""Points of one request: so many of the longest vectors fit."""


@immutable
class FoundHits:
    """The hits of a search. A point that several queries found says what it keeps once."""

    payloads: dict[str, Payload]
    found: list[list[tuple[str, float]]]


CALLS: Mapping[str, MemoryCall] = {
    "prepare": MemoryCall(None, str, int),
    "switch": MemoryCall(None, str, str),
    "collections": MemoryCall(list[Collection]),
    "drop": MemoryCall(None, str),
    "upsert": MemoryCall(None, str, list[Point]),
    "search": MemoryCall(FoundHits, str, list[VectorQuery]),
    "rank": MemoryCall(RankedMemories, str, MemoryRanking),
    "get": MemoryCall(list[KeptPoint], str, Selection),
    "scroll": MemoryCall(PointPage, str, Selection, int, str | None),
    "count": MemoryCall(int, str, Selection),
    "tenants": MemoryCall(list[str], str),
    "delete": MemoryCall(None, str, Selection),
}
"""By name. Selections are made anew on the other side, so none comes through without a tenant."""
CHILD_CALLS: Mapping[str, MemoryCall] = {
    **CALLS,
    "parts": MemoryCall(list[str]),
    "read_part": MemoryCall(str | None, str, str | None),
    "set_aside": MemoryCall(str, str),
}
"""What the process that has a store may ask its child for; other services may not."""


def packed(hits: Sequence[Sequence[Hit]]) -> FoundHits:
    """Hits as they are sent."""
    payloads = {hit.id: hit.payload for found in hits for hit in found}
    return FoundHits(payloads, [[(hit.id, hit.score) for hit in found] for found in hits])


def unpacked(found: FoundHits) -> list[list[Hit]]:
    """The inverse of `packed`. Raises ``KeyError`` for a hit of which nothing is told."""
    return [[Hit(name, score, found.payloads[name]) for name, score in hits] for hits in found.found]
