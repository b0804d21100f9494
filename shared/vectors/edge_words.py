"""Our points, selections and queries in the words of qdrant-edge, and back."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.vectors.edge_owners import UNKNOWN, Met, PresentOwners
from pentad.shared.vectors.ordering import score_of
from pentad.shared.vectors.points import Dense, KeptPoint, Point, Sparse
from pentad.shared.vectors.selection import DenseQuery, Selection, VectorQuery, Whose
from pentad.shared.vectors.stored_payload import KEYWORDS, NUMBERS, from_stored, to_stored


def config(dimensions: int) -> edge.EdgeConfig:
    """Of a shard for vectors of this dimension."""
    dense = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)
    sparse = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
    return edge.EdgeConfig(
        vectors={name.value: dense for name in Dense}, sparse_vectors={name.value: sparse for name in Sparse}
    )


def indexes() -> list[edge.UpdateOperation]:
    """What a new shard is told to index."""
    words, numbers = edge.PayloadSchemaType.Keyword, edge.PayloadSchemaType.Integer
    kinds = [(name, words) for name in KEYWORDS] + [(name, numbers) for name in NUMBERS]
    return [edge.UpdateOperation.create_field_index(name, kind) for name, kind in kinds]


def upsert(points: Sequence[Point]) -> edge.UpdateOperation:
    """Write these points."""
    return edge.UpdateOperation.upsert_points([_point(point) for point in points])


def delete(selection: Selection) -> edge.UpdateOperation:
    """Remove what is selected."""
    return edge.UpdateOperation.delete_points_by_filter(where(selection))


def where(selection: Selection) -> edge.Filter:
    """The conditions of a selection; the tenant is always one of them."""
    return edge.Filter(must=_conditions(selection, UNKNOWN))


def _conditions(selection: Selection, met: Met) -> list[Any]:
    """Those of a selection that not all points meet."""
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


def batch(queries: Sequence[VectorQuery], present: PresentOwners) -> edge.QueryBatchRequest:
    """All queries in one request; what points keep is read apart, once.

    Who reads the hits leaves out what a query does not mean.
    """
    return edge.QueryBatchRequest([_request(query, present) for query in queries])


def of_all(dimensions: int) -> edge.QueryBatchRequest:
    """Queries that read the vectors and the words of all points: of each kind the best one."""
    some = edge.Query.Nearest([1.0] + [0.0] * (dimensions - 1), Dense.TEXT.value)
    word = edge.Query.Nearest(edge.SparseVector([1], [1.0]), Sparse.WORDS.value)
    return edge.QueryBatchRequest([edge.QueryRequest(1, query=each, with_payload=True) for each in (some, word)])


def scores(found: Sequence[Any]) -> dict[str, float]:
    """The points that a query has found, with their scores."""
    return {str(point.id): score_of(point.score) for point in found}


def point_ids(ids: Sequence[str]) -> list[Any]:
    """Ids of points."""
    return [UUID(identifier) for identifier in ids]


def kept(records: Sequence[Any]) -> list[KeptPoint]:
    """Points that were read."""
    return [KeptPoint(str(record.id), from_stored(str(record.id), record.payload)) for record in records]


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
    """Among which points a word is rare: those that the owner may see. Without a corpus it is all, removed ones too."""
    seen = Selection(owner)
    corpus = edge.Filter(must=_conditions(seen, present.meet(seen)))
    return edge.SearchParams(idf=edge.IdfParams(corpus=corpus))


def _point(point: Point) -> edge.Point:
    vectors: dict[str, Any] = {name.value: vector for name, vector in point.dense.items()}
    for name, terms in point.sparse.items():
        vectors[name.value] = edge.SparseVector(list(terms.indices), list(terms.values))
    return edge.Point(UUID(point.id), vectors, to_stored(point.payload))


def _is(key: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=edge.MatchValue(value))


def _in(key: str, values: Sequence[str]) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=edge.MatchAny(list(values)))
