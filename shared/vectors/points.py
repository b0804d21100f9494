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
from pentad.shared.owners import NOBODY, Owner

Detail = str | int | float | bool


class Dense(StrEnum):
    """The dense vectors of a point, all of the collection's dimension; compared by cosine."""

    TEXT = "text"
    """Of the segment."""
    AROUND = "around"
    """Of the segment with what stands before and after it."""


class Sparse(StrEnum):
    """The sparse vectors of a point; compared by inner product, weighed by how rare terms are (`SparseVector`)."""

    WORDS = "words"
    AROUND_WORDS = "around_words"
    TASK_WORDS = "task_words"
    """Of the points that stand for tasks, and of no others: how rare a word is among tasks."""


@immutable
class SparseVector:
    """Terms by number, none twice, and what each weighs here.

    At a search each weight of the query is multiplied by the term's inverse document frequency,
    ``ln((n - df + 0.5) / (df + 0.5) + 1)``: of the ``n`` points with this vector that the searcher may see, ``df`` have
    the term. What others keep says nothing about his, and changes no score of his.
    """

    indices: tuple[int, ...]
    """Of 32 bits, without sign."""
    values: tuple[float, ...]


@immutable
class Payload:
    """What is kept of a segment beside its vectors."""

    owner: Owner
    kind: str
    """Of memory: episodic, semantic."""
    type: str
    """Of segment: what the user said, a tool's result."""
    task: str
    session: str
    position: int
    """Its place among the segments of its task."""
    at: int
    """When it was said, in milliseconds since the epoch."""
    importance: float
    """0 to 1."""
    anchor: str
    """Opens the sentence that it is from."""
    text: str
    details: dict[str, Detail] = field(default_factory=dict)
    """Whatever else a search shall bring back. Not to be filtered by."""


@immutable
class Point:
    """A segment with its vectors. One that is written again under its ``id`` replaces the one there."""

    id: str
    """A UUID in its canonical form, made from the anchor: the same content has the same one in every run."""
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
    """Points in the order of their ids, and where the next page begins: None after the last."""

    points: list[KeptPoint]
    next: str | None


@immutable
class Collection:
    """What a store says of a collection."""

    name: str
    dimensions: int
    points: int
    aliases: tuple[str, ...]


_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def collection_name(model: str, dimensions: int) -> str:
    """The collection of an embedding model: another model or dimension has another one. Pure."""
    readable = _NOT_IN_NAMES.sub("-", model.lower()).strip("-")[:60]
    return f"memory-{readable or 'model'}-{crc32(model.encode('utf-8', 'replace')):08x}-{dimensions}"


def rounded_score(raw: float) -> float:
    """A store's score with the five digits that are the same in every store: they add in different orders."""
    return float(f"{raw:.5g}")


def in_rank_order(hits: Iterable[Hit]) -> list[Hit]:
    """The best first; of equal ones the lower id."""
    by_id = sorted(hits, key=attrgetter("id"))
    by_id.sort(key=attrgetter("score"), reverse=True)  # two plain keys cost a third of a pair
    return by_id


KEYWORD_FIELDS = ("tenant", "user", "kind", "type", "task", "session")
"""Fields with an index of words. ``tenant`` goes first."""
NUMBER_FIELDS = ("at",)
"""Fields with an index of whole numbers."""


def encode_payload(payload: Payload) -> dict[str, Any]:
    """What the store keeps."""
    return {
        "tenant": payload.owner.tenant,
        "user": payload.owner.holder or NOBODY,
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
    """What was kept. Raises ``DamagedError`` for what nobody of ours has written."""
    try:
        kept = dict(stored)
        owner = Owner.of_holder(kept.pop("tenant"), kept.pop("user"))
        return Payload(owner=owner, **kept)
    except (KeyError, TypeError, ValueError, MemoryRefusedError) as error:
        raise DamagedError(f"point {identifier} of the memory cannot be read: {error!r}") from None
