"""What a collection of vectors keeps: points, each with its vectors and with what it says of a segment. Data alone."""

from dataclasses import field
from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner

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
