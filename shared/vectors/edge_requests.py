"""Our points, selections and queries as requests of qdrant-edge, and its records as our points.

A condition that all points of a collection meet is left out of its searches. Conditions cost a search up to ten times
what the rest of it costs (docs/decisions/0022): each point that shares a word with the question is looked up in two
indexes, twice. Most embedded memories belong to one tenant.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from pentad.shared.immutable import immutable
from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.vectors.points import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    Dense,
    KeptPoint,
    Point,
    Sparse,
    decode_payload,
    encode_payload,
    rounded_score,
)
from pentad.shared.vectors.selection import DenseQuery, Selection, VectorQuery, Whose

MAX_PRESENT_OWNERS = 1_000
"""Tenants, and holders of memories, that are tracked; with more, no condition is left out."""


@immutable
class MetConditions:
    """Conditions of a selection that all points of the collection meet."""

    tenant: bool = False
    user: bool = False


NO_CONDITION_MET = MetConditions()


class PresentOwners:
    """Tracks the owners of a collection's points, perhaps also of points that were removed.

    Whoever writes points calls `add` first. ``values`` returns up to so many values of a field of the points; None when
    it cannot.
    """

    def __init__(self, values: Callable[[str, int], list[str] | None]) -> None:
        tenants, users = values("tenant", MAX_PRESENT_OWNERS + 1), values("user", MAX_PRESENT_OWNERS + 1)
        self._known = tenants is not None and users is not None
        self._tenants, self._users = set(tenants or ()), set(users or ())

    def add(self, owners: Iterable[Owner]) -> None:
        """Add the owners of points that are about to be written."""
        for owner in owners:
            if len(self._tenants) <= MAX_PRESENT_OWNERS:
                self._tenants.add(owner.tenant)
            if len(self._users) <= MAX_PRESENT_OWNERS:
                self._users.add(owner.holder or TENANT_HOLDER)

    def meet(self, selection: Selection) -> MetConditions:
        """Return which conditions of a selection all points meet, so that they need not be checked."""
        if not self._known:
            return NO_CONDITION_MET
        return MetConditions(self._tenants == {selection.owner.tenant}, self._users <= _users_of(selection))


def _users_of(selection: Selection) -> set[str]:
    """Return the holders whose points a selection names one by one."""
    owner = selection.owner
    return {owner.holder or TENANT_HOLDER} if selection.whose is Whose.OWN else {*owner.holders_seen}


def config(dimensions: int) -> edge.EdgeConfig:
    """Return the configuration of a shard for vectors of this dimension."""
    dense = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)
    sparse = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
    return edge.EdgeConfig(
        vectors={name.value: dense for name in Dense}, sparse_vectors={name.value: sparse for name in Sparse}
    )


def indexes() -> list[edge.UpdateOperation]:
    """Return the operations that make the indexes of a new shard."""
    words, numbers = edge.PayloadSchemaType.Keyword, edge.PayloadSchemaType.Integer
    kinds = [(name, words) for name in KEYWORD_FIELDS] + [(name, numbers) for name in NUMBER_FIELDS]
    return [edge.UpdateOperation.create_field_index(name, kind) for name, kind in kinds]


def upsert(points: Sequence[Point]) -> edge.UpdateOperation:
    """Return the operation that writes these points."""
    return edge.UpdateOperation.upsert_points([_point(point) for point in points])


def delete(selection: Selection) -> edge.UpdateOperation:
    """Return the operation that removes the selected points."""
    return edge.UpdateOperation.delete_points_by_filter(selection_filter(selection))


def selection_filter(selection: Selection) -> edge.Filter:
    """Return the filter of a selection; the tenant is always one of its conditions."""
    return edge.Filter(must=_conditions(selection, NO_CONDITION_MET))


def _conditions(selection: Selection, met: MetConditions) -> list[Any]:
    """Return the conditions of a selection, except those that all points meet."""
    owner = selection.owner
    must: list[Any] = [] if met.tenant else [_is("tenant", owner.tenant)]
    if selection.whose is Whose.SEEN and not met.user:
        must.append(_in("user", owner.holders_seen))
    elif selection.whose is Whose.OWN and not met.user:
        must.append(_is("user", owner.holder or TENANT_HOLDER))
    named = (("kind", selection.kinds), ("type", selection.types), ("task", selection.tasks))
    must += [_in(key, values) for key, values in (*named, ("session", selection.sessions)) if values]
    if selection.since is not None or selection.until is not None:
        must.append(edge.FieldCondition("at", range=edge.RangeFloat(gte=selection.since, lt=selection.until)))
    if selection.ids is not None:
        must.append(edge.HasIdCondition({UUID(identifier) for identifier in selection.ids}))
    return must


def query_batch(queries: Sequence[VectorQuery], present: PresentOwners) -> edge.QueryBatchRequest:
    """Return all queries in one request; payloads are read separately, once.

    The caller drops hits that a query does not mean.
    """
    return edge.QueryBatchRequest([_request(query, present) for query in queries])


def probe_of_all(dimensions: int) -> edge.QueryBatchRequest:
    """Return queries that read the vectors and the words of all points; each returns the best point alone."""
    some = edge.Query.Nearest([1.0] + [0.0] * (dimensions - 1), Dense.TEXT.value)
    word = edge.Query.Nearest(edge.SparseVector([1], [1.0]), Sparse.WORDS.value)
    return edge.QueryBatchRequest([edge.QueryRequest(1, query=each, with_payload=True) for each in (some, word)])


def scores(found: Sequence[Any]) -> dict[str, float]:
    """Return the scores of the points that a query found, by id."""
    return {str(point.id): rounded_score(point.score) for point in found}


def point_ids(ids: Sequence[str]) -> list[Any]:
    """Return ids of points as qdrant-edge takes them."""
    return [UUID(identifier) for identifier in ids]


def decoded_points(records: Sequence[Any]) -> list[KeptPoint]:
    """Return the points of records that were read."""
    return [KeptPoint(str(record.id), decode_payload(str(record.id), record.payload)) for record in records]


def _request(query: VectorQuery, present: PresentOwners) -> edge.QueryRequest:
    must = _conditions(query.selection, present.meet(query.selection))
    chosen = edge.Filter(must=must) if must else None
    if isinstance(query, DenseQuery):
        nearest = edge.Query.Nearest(list(query.vector), query.using.value)
        return edge.QueryRequest(query.limit, query=nearest, filter=chosen, with_payload=False)
    terms = edge.SparseVector(list(query.vector.indices), list(query.vector.values))
    return edge.QueryRequest(
        query.limit,
        query=edge.Query.Nearest(terms, query.using.value),
        filter=chosen,
        with_payload=False,
        params=_rarity(query.selection.owner, present),
    )


def _rarity(owner: Owner, present: PresentOwners) -> edge.SearchParams:
    """Return the points among which a word's rarity counts: those that the owner may see.

    Without a corpus qdrant-edge counts all points, removed ones too.
    """
    seen = Selection(owner)
    corpus = edge.Filter(must=_conditions(seen, present.meet(seen)))
    return edge.SearchParams(idf=edge.IdfParams(corpus=corpus))


def _point(point: Point) -> edge.Point:
    vectors: dict[str, Any] = {name.value: vector for name, vector in point.dense.items()}
    for name, terms in point.sparse.items():
        vectors[name.value] = edge.SparseVector(list(terms.indices), list(terms.values))
    return edge.Point(UUID(point.id), vectors, encode_payload(point.payload))


def _is(key: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=edge.MatchValue(value))


def _in(key: str, values: Sequence[str]) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=edge.MatchAny(list(values)))
