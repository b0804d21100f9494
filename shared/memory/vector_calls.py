"""The calls of `Vectors` and `RankingVectors` as they go to another process: what goes in and what comes out."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from pentad.shared.immutable import immutable
from pentad.shared.memory.ranking import MemoryRanking, RankedMemories
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Payload, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

MOST_REQUEST_BYTES = 8 << 20
"""Of one request."""
MOST_REPLY_BYTES = 32 << 20
"""Of one reply."""
POINTS_AT_ONCE = 32
"""Points of one request: so many of the longest vectors fit."""


@immutable
class VectorCall:
    """A method of the port. ``given``: its arguments as a tuple; ``gives``: what it returns."""

    given: TypeAdapter[Any]
    gives: TypeAdapter[Any]


@immutable
class FoundHits:
    """The hits of a search. A point that several queries found says what it keeps once."""

    payloads: dict[str, Payload]
    found: list[list[tuple[str, float]]]


_NOTHING: TypeAdapter[Any] = TypeAdapter(None)
CALLS: Mapping[str, VectorCall] = {
    "prepare": VectorCall(TypeAdapter(tuple[str, int]), _NOTHING),
    "switch": VectorCall(TypeAdapter(tuple[str, str]), _NOTHING),
    "collections": VectorCall(TypeAdapter(tuple[()]), TypeAdapter(list[Collection])),
    "drop": VectorCall(TypeAdapter(tuple[str]), _NOTHING),
    "upsert": VectorCall(TypeAdapter(tuple[str, list[Point]]), _NOTHING),
    "search": VectorCall(TypeAdapter(tuple[str, list[VectorQuery]]), TypeAdapter(FoundHits)),
    "rank": VectorCall(TypeAdapter(tuple[str, MemoryRanking]), TypeAdapter(RankedMemories)),
    "get": VectorCall(TypeAdapter(tuple[str, Selection]), TypeAdapter(list[KeptPoint])),
    "scroll": VectorCall(TypeAdapter(tuple[str, Selection, int, str | None]), TypeAdapter(PointPage)),
    "count": VectorCall(TypeAdapter(tuple[str, Selection]), TypeAdapter(int)),
    "delete": VectorCall(TypeAdapter(tuple[str, Selection]), _NOTHING),
}
"""By name. Selections are made anew on the other side, so none comes through without a tenant."""


def packed(hits: Sequence[Sequence[Hit]]) -> FoundHits:
    """Hits as they are sent."""
    payloads = {hit.id: hit.payload for found in hits for hit in found}
    return FoundHits(payloads, [[(hit.id, hit.score) for hit in found] for found in hits])


def unpacked(found: FoundHits) -> list[list[Hit]]:
    """The inverse of `packed`. Raises ``KeyError`` for a hit of which nothing is told."""
    return [[Hit(name, score, found.payloads[name]) for name, score in hits] for hits in found.found]
