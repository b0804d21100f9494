"""Notes of what was forgotten, by id: it is not remembered or learned again from its task.

Notes have a collection of their own, shared by all models, and contain no words: one note for a segment, one for a node
and each task that it rested on. What another task says again was not forgotten there.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import uuid_of
from pentad.shared.vectors.limits import MOST_HITS, MOST_POINTS
from pentad.shared.vectors.points import KeptPoint, Payload, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

FORGOTTEN = "memory-forgotten"
"""Name of the collection; no model's collection has this name."""
FORGOTTEN_KIND = "forgotten"
_NO_SESSION = "memory"
"""Session of a node's note: a node is known in all sessions."""
_DIMENSIONS = 1
"""Dimension of the collection, which must have one; its points have no vectors."""


async def prepare_forgotten(vectors: Vectors) -> None:
    """Make the collection of notes. Safe to repeat. Raises ``MemoryOutageError``."""
    await vectors.prepare(FORGOTTEN, _DIMENSIONS)


async def forgotten_of(vectors: Vectors, tenant: str, task: str) -> frozenset[str]:
    """Return the ids of a task's forgotten segments, and of forgotten nodes that rested on it.

    Raises ``MemoryOutageError``.
    """
    return (await forgotten_of_tasks(vectors, tenant, [task]))[task]


async def forgotten_of_tasks(vectors: Vectors, tenant: str, tasks: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return, for each of a tenant's tasks, what `forgotten_of` returns."""
    selection = Selection(Owner(tenant), Whose.ALL, tasks=tuple(tasks))
    found: dict[str, set[str]] = {task: set() for task in tasks}
    cursor = None
    while True:
        try:
            page = await vectors.scroll(FORGOTTEN, selection, MOST_HITS, cursor)
        except MemoryRefusedError:  # nobody has forgotten anything
            break
        for point in page.points:
            found[point.payload.task].add(point.payload.anchor)
        if (cursor := page.next) is None:
            break
    return {task: frozenset(ids) for task, ids in found.items()}


async def forgot(vectors: Vectors, owner: Owner, segment: str) -> bool:
    """Whether this segment was the owner's and is forgotten. Raises ``MemoryOutageError``."""
    try:
        return bool(await vectors.get(FORGOTTEN, Selection(owner, Whose.OWN, ids=(segment,))))
    except MemoryRefusedError:  # nobody has forgotten anything
        return False


def noted_segments(segments: Sequence[KeptPoint]) -> list[Point]:
    """Return the notes that these segments are forgotten. Pure."""
    return [_noted(each) for each in segments]


def noted_nodes(nodes: Sequence[MemoryNode]) -> list[Point]:
    """Return the notes that these nodes are forgotten, one for each task that supports them now. Pure."""
    return [point for node in nodes for point in _noted_node(node)]


def node_note_id(owner: Owner, task: str, node: str) -> str:
    """Return the id of the note that a node is forgotten as far as this task says it."""
    return uuid_of(sha256(f"{owner.tenant}/{task}/{node}".encode()).hexdigest())


async def write_notes(vectors: Vectors, points: Sequence[Point]) -> None:
    """Write these notes. Safe to repeat. Raises ``MemoryOutageError``."""
    await prepare_forgotten(vectors)
    for begin in range(0, len(points), MOST_POINTS):
        await vectors.upsert(FORGOTTEN, points[begin : begin + MOST_POINTS])


async def remove_notes(vectors: Vectors, tenant: str, ids: Sequence[str]) -> None:
    """Remove notes. Safe to repeat. Raises ``MemoryOutageError``."""
    for begin in range(0, len(ids), MOST_POINTS):
        taken = Selection(Owner(tenant), Whose.ALL, ids=tuple(ids[begin : begin + MOST_POINTS]))
        with suppress(MemoryRefusedError):  # nobody has forgotten anything
            await vectors.delete(FORGOTTEN, taken)


def _noted_node(node: MemoryNode) -> Iterator[Point]:
    for task in sorted({support.task for support in node.supports}):
        payload = Payload(
            owner=node.owner,
            kind=FORGOTTEN_KIND,
            type=node.kind.value,
            task=task,
            session=_NO_SESSION,
            position=0,
            at=node.learned_at,
            importance=0.0,
            anchor=node.id,
            text="",
        )
        yield Point(node_note_id(node.owner, task, node.id), payload)


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
