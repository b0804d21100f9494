"""Points for tests of the stores of vectors: short vectors, and words that are terms by their letters."""

from typing import Any
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32

from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Dense, Payload, Point, Sparse, SparseVector
from pentad.shared.vectors.selection import DenseQuery, Selection, SparseQuery

ADA = Owner("acme", "ada")
BOB = Owner("acme", "bob")
ACME = Owner("acme")
OTHER = Owner("other", "ada")


def point_id(name: str) -> str:
    """The same id for the same name, as anchors give it."""
    return str(uuid5(NAMESPACE_URL, name))


def terms(text: str) -> SparseVector:
    """Each word once, with weight one."""
    numbers = sorted({crc32(word.encode("utf-8", "replace")) for word in text.split()})
    return SparseVector(tuple(numbers), (1.0,) * len(numbers))


def point(name: str, owner: Owner = ADA, text: str = "", dense: tuple[float, ...] = (1, 0, 0), **fields: Any) -> Point:
    """Return a point with this name, whose text is also its words."""
    given = {"kind": "episodic", "type": "response", "task": "task-0-1", "session": "s1", "position": 0, "at": 1000}
    rest = {"importance": 0.5, "anchor": f"anchor-{name}", "text": text or name}
    payload = Payload(owner=owner, **{**given, **rest, **fields})
    vectors = {Dense.TEXT: dense, Dense.AROUND: dense}
    words = terms(text or name)
    return Point(point_id(name), payload, vectors, {Sparse.WORDS: words, Sparse.AROUND_WORDS: words})


def near(vector: tuple[float, ...], selection: Selection, limit: int = 10) -> DenseQuery:
    """Return a query for points whose dense vector is near."""
    return DenseQuery(vector, Dense.TEXT, selection, limit)


def saying(text: str, selection: Selection, limit: int = 10) -> SparseQuery:
    """Return a query for points that have these words."""
    return SparseQuery(terms(text), Sparse.WORDS, selection, limit)
