"""The bounds of the stores of vectors: what makes a point, a query or a name unusable. Pure."""

import json
import math
import re
from collections.abc import Iterable, Sequence

from pentad.contracts.ids import LAST_MS
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.vectors.points import Detail, Payload, Point, SparseVector
from pentad.shared.vectors.selection import DenseQuery, Selection, VectorQuery

MOST_POINTS = 256
"""Points of one upsert."""
MOST_QUERIES = 16
"""Queries of one search."""
MOST_HITS = 1000
"""Hits of one query, and points of a page."""
MOST_TENANTS = 100_000
"""Tenants of a collection that can be listed."""
MOST_PAYLOAD_BYTES = 1 << 16
"""Bytes of one point's payload, as JSON."""
_MOST_DIMENSIONS = 4096
_MOST_TERMS = 8192
"""Terms of one sparse vector."""
_MOST_NAMED = 1000
"""Values of one condition of a selection."""
_MOST_WORD_CHARS = 512
"""Characters of a kind, type, task, session or anchor."""
_U32 = 1 << 32
_I64 = 1 << 63
_MAX_NUMBER = 1e30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_name(name: str) -> None:
    """Check the name of a collection or alias: it becomes a folder and a part of an address."""
    if _NAME.fullmatch(name) is None:
        raise MemoryRefusedError(f"{name!r} is no name of a collection: 1 to 100 of A-Z a-z 0-9 _ -")


def check_tenants(tenants: Iterable[str]) -> list[str]:
    """Return the tenants of a collection, in order. ``tenants`` may have one more than can be listed."""
    found = sorted(tenants)
    if len(found) > MOST_TENANTS:
        raise MemoryRefusedError(f"the collection has points of more than {MOST_TENANTS} tenants: these are not listed")
    return found


def check_dimensions(dimensions: int) -> None:
    """Check the length of vectors."""
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise MemoryRefusedError(f"vectors of {dimensions} numbers: 1 to {_MOST_DIMENSIONS} can be kept")


def check_points(points: Sequence[Point], dimensions: int | None = None) -> None:
    """Check points that are written together. ``dimensions``: the collection's, where the caller knows it."""
    if len(points) > MOST_POINTS:
        raise MemoryRefusedError(f"{len(points)} points at once: write {MOST_POINTS} at most, the others after them")
    for point in points:
        check_id(point.id)
        _check_payload(point)
        for vector in point.dense.values():
            dimensions = dimensions or len(vector)
            _check_dense(vector, dimensions, f"point {point.id}")
        for sparse in point.sparse.values():
            _check_sparse(sparse, f"point {point.id}")


def check_lengths(points: Sequence[Point], dimensions: int | None) -> None:
    """Check the lengths of vectors against the collection's; all else was checked before."""
    for point in points:
        for vector in point.dense.values():
            if len(vector) != dimensions:
                raise _other_length(f"point {point.id}", len(vector), dimensions)


def check_queries(queries: Sequence[VectorQuery], dimensions: int | None = None) -> None:
    """Check queries that are searched for together."""
    if len(queries) > MOST_QUERIES:
        raise MemoryRefusedError(f"{len(queries)} queries at once: {MOST_QUERIES} at most")
    for query in queries:
        check_limit(query.limit)
        check_selection(query.selection)
        if isinstance(query, DenseQuery):
            _check_dense(query.vector, dimensions or len(query.vector), "the query")
        else:
            _check_sparse(query.vector, "the query")


def check_limit(limit: int) -> None:
    """Check the number of points that are asked for."""
    if not 1 <= limit <= MOST_HITS:
        raise MemoryRefusedError(f"{limit} points asked for: 1 to {MOST_HITS}")


def check_selection(selection: Selection) -> None:
    """Check a selection."""
    lists: Iterable[Sequence[str]] = (selection.kinds, selection.types, selection.tasks, selection.sessions)
    for named in (*lists, selection.ids or ()):
        if len(named) > _MOST_NAMED:
            raise MemoryRefusedError(f"{len(named)} values of one condition: {_MOST_NAMED} at most")
        for word in named:
            _check_word(word)
    for identifier in selection.ids or ():
        check_id(identifier)
    for moment in (selection.since, selection.until):
        if moment is not None and not 0 <= moment <= LAST_MS + 1:
            raise MemoryRefusedError(f"{moment} is no time in milliseconds since the epoch")


def check_selected_ids(selection: Selection) -> None:
    """Check a selection that must name points by their ids."""
    check_selection(selection)
    if selection.ids is None:
        raise MemoryRefusedError("points are got by their ids: name them, or scroll")


def check_id(identifier: str) -> None:
    """Check that an id is a UUID as stores write it."""
    if not isinstance(identifier, str) or _ID.fullmatch(identifier) is None:
        raise MemoryRefusedError(f"{identifier[:64]!r} is no point's id: a UUID, in small letters with hyphens")


def _check_payload(point: Point) -> None:
    kept = point.payload
    for word in (kept.kind, kept.type, kept.task, kept.session, kept.anchor):
        _check_word(word)
    if not 0 <= kept.importance <= 1 or not all(_is_kept(value) for value in kept.details.values()):
        raise MemoryRefusedError(f"point {point.id}: importance is 0 to 1, numbers are finite and of 64 bits")
    if not 0 <= kept.at <= LAST_MS or not 0 <= kept.position < _U32:
        raise MemoryRefusedError(f"point {point.id}: no such time or position")
    size = _size(kept, point.id)
    if size > MOST_PAYLOAD_BYTES:
        raise MemoryRefusedError(f"point {point.id} has {size} bytes of payload: {MOST_PAYLOAD_BYTES} at most; cut it")


def _is_kept(value: Detail) -> bool:
    """Whether every store returns this value unchanged: finite numbers, integers of 64 bits."""
    return isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value) and abs(value) < _I64)


def _size(kept: Payload, identifier: str) -> int:
    try:
        return len(kept.text.encode()) + len(json.dumps(kept.details, ensure_ascii=False).encode())
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise MemoryRefusedError(f"point {identifier} cannot be written as JSON in UTF-8: {error}") from None


def _check_word(word: str) -> None:
    if not 1 <= len(word) <= _MOST_WORD_CHARS or not word.isprintable():
        raise MemoryRefusedError(f"{word[:64]!r}: 1 to {_MOST_WORD_CHARS} printable characters are wanted")


def _check_dense(vector: tuple[float, ...], dimensions: int, where: str) -> None:
    check_dimensions(len(vector))
    if len(vector) != dimensions:
        raise _other_length(where, len(vector), dimensions)
    _check_numbers(vector, where)


def _other_length(where: str, length: int, dimensions: int | None) -> MemoryRefusedError:
    return MemoryRefusedError(f"{where} has a vector of {length} numbers, the others have {dimensions}")


def _check_sparse(vector: SparseVector, where: str) -> None:
    numbers = vector.indices
    if len(numbers) != len(vector.values) or len(numbers) > _MOST_TERMS or len(set(numbers)) != len(numbers):
        raise MemoryRefusedError(f"{where}: each term once with one weight, {_MOST_TERMS} at most")
    if numbers and not 0 <= min(numbers) <= max(numbers) < _U32:
        raise MemoryRefusedError(f"{where}: terms are numbers of 32 bits")
    _check_numbers(vector.values, where)


def _check_numbers(numbers: Sequence[float], where: str) -> None:
    if math.hypot(*numbers) <= _MAX_NUMBER:  # of nearly all: then each of them is in bounds, and a number
        return
    if not math.isfinite(sum(numbers)) or not -_MAX_NUMBER <= min(numbers) <= max(numbers) <= _MAX_NUMBER:
        raise MemoryRefusedError(f"{where} has a vector with numbers that are none, or are too large")
