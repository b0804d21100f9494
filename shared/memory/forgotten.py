"""Segments that a person wanted forgotten, by their ids, so that none comes back when its task is remembered again.

They are noted in a collection of their own, whatever models embed: there is one point for each, without its words.
"""

from collections.abc import Sequence

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.owners import Owner
from pentad.shared.vectors.limits import MOST_HITS, MOST_POINTS
from pentad.shared.vectors.points import KeptPoint, Payload, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

FORGOTTEN = "memory-forgotten"
"""The collection. No model's is called so."""
FORGOTTEN_KIND = "forgotten"
_DIMENSIONS = 1
"""A collection has some; nothing in it has a vector."""


async def prepare_forgotten(vectors: Vectors) -> None:
    """Make the collection. Safe to repeat. Raises ``MemoryOutageError``."""
    await vectors.prepare(FORGOTTEN, _DIMENSIONS)


async def forgotten_of(vectors: Vectors, tenant: str, task: str) -> frozenset[str]:
    """The ids of a task's segments that are forgotten. Raises ``MemoryOutageError``."""
    selection = Selection(Owner(tenant), Whose.ALL, tasks=(task,))
    found, cursor = set[str](), None
    while True:
        try:
            page = await vectors.scroll(FORGOTTEN, selection, MOST_HITS, cursor)
        except MemoryRefusedError:  # nobody has forgotten anything
            return frozenset()
        found |= {point.id for point in page.points}
        if (cursor := page.next) is None:
            return frozenset(found)


async def note_forgotten(vectors: Vectors, segments: Sequence[KeptPoint]) -> None:
    """Note that these are forgotten. Safe to repeat. Raises ``MemoryOutageError``."""
    await prepare_forgotten(vectors)
    for begin in range(0, len(segments), MOST_POINTS):
        await vectors.upsert(FORGOTTEN, [_noted(each) for each in segments[begin : begin + MOST_POINTS]])


def _noted(segment: KeptPoint) -> Point:
    kept = segment.payload
    payload = Payload(
        owner=kept.owner,
        kind=FORGOTTEN_KIND,
        type=kept.type,
        task=kept.task,
        session=kept.session,
        position=kept.position,
        at=kept.at,
        importance=0.0,
        anchor=segment.id,
        text="",
    )
    return Point(segment.id, payload)
