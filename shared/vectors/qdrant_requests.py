"""Our points, selections and queries as requests of the Qdrant client, and its responses as our points."""

from collections.abc import Iterator, Sequence
from typing import Any

from qdrant_client import models as qdrant

from pentad.shared.owners import TENANT_HOLDER
from pentad.shared.vectors.payload_cache import DecodedPayloads
from pentad.shared.vectors.points import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    Dense,
    Hit,
    KeptPoint,
    Point,
    Sparse,
    decode_payload,
    encode_payload,
    in_rank_order,
    rounded_score,
)
from pentad.shared.vectors.selection import DenseQuery, Selection, VectorQuery, Whose


def dense_config(dimensions: int) -> dict[str, qdrant.VectorParams]:
    """Return the configuration of a collection's dense vectors."""
    return {name.value: qdrant.VectorParams(size=dimensions, distance=qdrant.Distance.COSINE) for name in Dense}


def sparse_config() -> dict[str, qdrant.SparseVectorParams]:
    """Return the configuration of a collection's sparse vectors; the server knows how rare each term is."""
    return {name.value: qdrant.SparseVectorParams(modifier=qdrant.Modifier.IDF) for name in Sparse}


def indexes() -> dict[str, Any]:
    """Return the indexes by field. The server stores a tenant's points together."""
    words, tenant = qdrant.PayloadSchemaType.KEYWORD, KEYWORD_FIELDS[0]
    together = qdrant.KeywordIndexParams(type=qdrant.KeywordIndexType.KEYWORD, is_tenant=True)
    plain = dict.fromkeys(KEYWORD_FIELDS, words) | dict.fromkeys(NUMBER_FIELDS, qdrant.PayloadSchemaType.INTEGER)
    return plain | {tenant: together}


def selection_filter(selection: Selection) -> qdrant.Filter:
    """Return the filter of a selection; the tenant is always one of its conditions."""
    owner = selection.owner
    must: list[Any] = [_is("tenant", owner.tenant)]
    if selection.whose is Whose.SEEN:
        must.append(_in("user", owner.holders_seen))
    elif selection.whose is Whose.OWN:
        must.append(_is("user", owner.holder or TENANT_HOLDER))
    named = (("kind", selection.kinds), ("type", selection.types), ("task", selection.tasks))
    must += [_in(key, values) for key, values in (*named, ("session", selection.sessions)) if values]
    if selection.since is not None or selection.until is not None:
        moments = qdrant.Range(gte=selection.since, lt=selection.until)
        must.append(qdrant.FieldCondition(key="at", range=moments))
    if selection.ids is not None:
        must.append(qdrant.HasIdCondition(has_id=list(selection.ids)))
    return qdrant.Filter(must=must)


_MAX_REQUEST_BYTES = 8 << 20
"""Bytes of one request that writes, as JSON: a server takes 32 MiB unless it is told otherwise, and each request holds
the event loop while it is written."""
_NUMBER_BYTES = 26
"""Bytes of a number of a vector with what separates it from the next."""
_ESCAPED_BYTES = 6
"""Bytes of a character that JSON must escape."""
_PAYLOAD_BYTES = 2048
"""Bytes of the other fields of a payload."""


def parts_of(given: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Yield points in parts that one request can carry."""
    begin, size = 0, 0
    for place, point in enumerate(given):
        size += (more := _size_of(point))
        if size > _MAX_REQUEST_BYTES and place > begin:
            yield given[begin:place]
            begin, size = place, more
    if begin < len(given):
        yield given[begin:]


def _size_of(point: Point) -> int:
    """Return a bound for the bytes of a point."""
    numbers = sum(map(len, point.dense.values())) + sum(2 * len(terms.indices) for terms in point.sparse.values())
    texts = len(point.payload.text) + sum(len(str(value)) for value in point.payload.details.values())
    return numbers * _NUMBER_BYTES + texts * _ESCAPED_BYTES + _PAYLOAD_BYTES


def points(given: Sequence[Point]) -> list[qdrant.PointStruct]:
    """Return points as the client writes them."""
    return [qdrant.PointStruct(id=p.id, vector=_vectors(p), payload=encode_payload(p.payload)) for p in given]


def request(query: VectorQuery) -> qdrant.QueryRequest:
    """Return the request of a query; the rarity of terms is counted among what its owner may see."""
    chosen, using, limit = selection_filter(query.selection), query.using.value, query.limit
    if isinstance(query, DenseQuery):
        nearest = list(query.vector)
        return qdrant.QueryRequest(query=nearest, using=using, filter=chosen, limit=limit, with_payload=True)
    terms = qdrant.SparseVector(indices=list(query.vector.indices), values=list(query.vector.values))
    corpus = qdrant.IdfCorpusParams(corpus=selection_filter(Selection(query.selection.owner)))
    params = qdrant.SearchParams(idf=corpus)
    return qdrant.QueryRequest(query=terms, using=using, filter=chosen, limit=limit, with_payload=True, params=params)


def hits(found: qdrant.QueryResponse, payloads: DecodedPayloads) -> list[Hit]:
    """Return the hits of a response."""
    named = ((str(point.id), point) for point in found.points)
    return in_rank_order(Hit(name, rounded_score(p.score), payloads.of(name, p.payload)) for name, p in named)


def decoded_points(records: Sequence[Any]) -> list[KeptPoint]:
    """Return the points of records that were read."""
    return [KeptPoint(str(record.id), decode_payload(str(record.id), record.payload)) for record in records]


def _vectors(point: Point) -> Any:
    dense = {name.value: list(vector) for name, vector in point.dense.items()}
    sparse = {
        name.value: qdrant.SparseVector(indices=list(terms.indices), values=list(terms.values))
        for name, terms in point.sparse.items()
    }
    return dense | sparse


def _is(key: str, value: str) -> qdrant.FieldCondition:
    return qdrant.FieldCondition(key=key, match=qdrant.MatchValue(value=value))


def _in(key: str, values: Sequence[str]) -> qdrant.FieldCondition:
    return qdrant.FieldCondition(key=key, match=qdrant.MatchAny(any=list(values)))
