"""Points of a collection of vectors, each with a payload; how payloads are stored and hits are ordered. Pure."""

import re
from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from operator import attrgetter
from typing import Any
from zlib import crc32

from pentad.shared.errors import DamagedError, MemoryRefusedError
from pentad.shared.immutable import immutable
from pentad.shared.owners import TENANT_HOLDER, Owner

Detail = str | int | float | bool


class Dense(StrEnum):
    """The dense vectors of a point, all of the collection's dimension; compared by cosine."""

    TEXT = "text"
    """Vector of the segment."""
    AROUND = "around"
    """Vector of the segment with its neighbours."""


class Sparse(StrEnum):
    """The sparse vectors of a point; compared by inner product, weighed by how rare terms are (`SparseVector`)."""

    WORDS = "words"
    AROUND_WORDS = "around_words"
    TASK_WORDS = "task_words"
    """Words of the points that stand for tasks, and of no others: how rare a word is among tasks."""


@immutable
class SparseVector:
    """Terms as numbers, none twice, with their weights.

    In a search each weight of the query is multiplied by the term's inverse document frequency, ``ln((n - df + 0.5) /
    (df + 0.5) + 1)``: of the ``n`` points with this vector that the searcher may see, ``df`` have the term. So memories
    of other users reveal nothing about themselves and change no score.
    """

    indices: tuple[int, ...]
    """Terms as unsigned 32-bit numbers."""
    values: tuple[float, ...]


@immutable
class Payload:
    """The data that is stored with a point beside its vectors."""

    owner: Owner
    kind: str
    """Kind of memory: episodic, semantic."""
    type: str
    """Type of segment, such as a user's message or a tool's result."""
    task: str
    session: str
    position: int
    """Position among the segments of its task."""
    at: int
    """Time at which it was said, in milliseconds since the epoch."""
    importance: float
    """Importance, 0 to 1."""
    anchor: str
    """Anchor of the sentence that it is from."""
    text: str
    details: dict[str, Detail] = field(default_factory=dict)
    """Further data that a search returns. It cannot be filtered by."""


@immutable
class Point:
    """A segment with its vectors. Writing it again under its ``id`` replaces the earlier one."""

    id: str
    """A canonical UUID made from the anchor: the same content has the same id in every run."""
    payload: Payload
    dense: dict[Dense, tuple[float, ...]] = field(default_factory=dict)
    sparse: dict[Sparse, SparseVector] = field(default_factory=dict)


@immutable
class KeptPoint:
    """A point as it is read: vectors are not read back."""

    id: str
    payload: Payload


@immutable
class Hit:
    """A point that a search found. Higher scores are nearer."""

    id: str
    score: float
    payload: Payload


@immutable
class PointPage:
    """Points in the order of their ids, and where the next page begins; None after the last."""

    points: list[KeptPoint]
    next: str | None


@immutable
class Collection:
    """A collection as a store describes it."""

    name: str
    dimensions: int
    points: int
    aliases: tuple[str, ...]


_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def collection_name(model: str, dimensions: int) -> str:
    """Return the collection's name for an embedding model: each model and dimension has its own. Pure."""
    readable = _NOT_IN_NAMES.sub("-", model.lower()).strip("-")[:60]
    return f"memory-{readable or 'model'}-{crc32(model.encode('utf-8', 'replace')):08x}-{dimensions}"


def rounded_score(raw: float) -> float:
    """Return a score with five significant digits: stores add in different orders and differ in later digits."""
    return float(f"{raw:.5g}")


def in_rank_order(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits ordered by score, the best first; equal ones by id."""
    by_id = sorted(hits, key=attrgetter("id"))
    by_id.sort(key=attrgetter("score"), reverse=True)  # two plain keys cost a third of a pair
    return by_id


KEYWORD_FIELDS = ("tenant", "user", "kind", "type", "task", "session")
"""Fields with a keyword index. ``tenant`` must be the first."""
NUMBER_FIELDS = ("at",)
"""Fields with an integer index."""


def encode_payload(payload: Payload) -> dict[str, Any]:
    """Return a payload as both stores keep it: one JSON object, with the fields that are filtered by at its top."""
    return {
        "tenant": payload.owner.tenant,
        "user": payload.owner.holder or TENANT_HOLDER,
        "kind": payload.kind,
        "type": payload.type,
        "task": payload.task,
        "session": payload.session,
        "position": payload.position,
        "at": payload.at,
        "importance": payload.importance,
        "anchor": payload.anchor,
        "text": payload.text,
        "details": payload.details,
    }


def decode_payload(identifier: str, stored: Any) -> Payload:
    """Return the payload of a stored object. Raises ``DamagedError`` for one that Pentad did not write."""
    try:
        kept = dict(stored)
        owner = Owner.of_holder(kept.pop("tenant"), kept.pop("user"))
        return Payload(owner=owner, **kept)
    except (KeyError, TypeError, ValueError, MemoryRefusedError) as error:
        raise DamagedError(f"point {identifier} of the memory cannot be read: {error!r}") from None
