"""The calls of the Qdrant client, one method for each method of the port.

Import it at its first use only: it loads the client.
"""

import math
from collections.abc import Sequence
from json import JSONDecodeError
from typing import Any
from urllib.parse import urlsplit

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qdrant
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, PentadError
from pentad.shared.vectors import qdrant_requests as requests
from pentad.shared.vectors.limits import MOST_TENANTS, check_tenants
from pentad.shared.vectors.payload_cache import DecodedPayloads
from pentad.shared.vectors.points import Collection, Dense, Hit, KeptPoint, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

_CONNECTIONS = 64
_QDRANT_PORT, _HTTPS_PORT = 6333, 443


def connected(url: str, api_key: str | None, timeout_s: float) -> AsyncQdrantClient:
    """Return a client of this server; nothing is sent yet. ``:memory:`` is the client's own store.

    Connections without TLS are not kept: the server waits with the end of an answer until its beginning is
    acknowledged, which takes 40 ms on all but a fresh connection.
    """
    if url.startswith(":"):
        return AsyncQdrantClient(url)
    is_secure = urlsplit(url).scheme == "https"
    return AsyncQdrantClient(
        url=url,
        port=_HTTPS_PORT if is_secure else _QDRANT_PORT,  # where the address names none
        headers={"api-key": api_key} if api_key else None,
        timeout=math.ceil(timeout_s),
        limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS if is_secure else 0),
        check_compatibility=False,
    )


class QdrantCalls:
    """The port `Vectors` on one client, without checks: the caller makes them."""

    def __init__(self, client: AsyncQdrantClient, place: str, has_indexes: bool) -> None:
        self._client, self._place, self._has_indexes = client, place, has_indexes
        self._payloads = DecodedPayloads()

    async def prepare(self, name: str, dimensions: int) -> None:
        """Make what is missing of a collection. One that has everything costs two short requests."""
        if not await self._client.collection_exists(name):
            await self._create(name, dimensions)
        there = await self._client.get_collection(name)
        if (numbers := _dimensions_of(there)) != dimensions:
            raise MemoryRefusedError(f"the collection {name} has vectors of {numbers} numbers, not {dimensions}")
        if self._has_indexes:
            for field, schema in requests.indexes().items():
                if field not in there.payload_schema:
                    await self._client.create_payload_index(name, field, field_schema=schema, wait=True)

    async def switch(self, alias: str, name: str) -> None:
        """Switch an alias in one request: at no moment does it mean nothing."""
        known = (await self._client.get_aliases()).aliases
        made = qdrant.CreateAlias(collection_name=name, alias_name=alias)
        steps: list[Any] = [qdrant.CreateAliasOperation(create_alias=made)]
        if any(there.alias_name == alias for there in known):
            steps.insert(0, qdrant.DeleteAliasOperation(delete_alias=qdrant.DeleteAlias(alias_name=alias)))
        await self._client.update_collection_aliases(steps)

    async def collections(self) -> list[Collection]:
        known = (await self._client.get_aliases()).aliases
        found = []
        for name in sorted(there.name for there in (await self._client.get_collections()).collections):
            dimensions = _dimensions_of(await self._client.get_collection(name))
            aliases = tuple(sorted(a.alias_name for a in known if a.collection_name == name))
            count = (await self._client.count(name, exact=True)).count
            found.append(Collection(name, dimensions, count, aliases))
        return found

    async def drop(self, name: str) -> None:
        await self._client.delete_collection(name)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        for part in requests.parts_of(points):
            await self._client.upsert(collection, requests.points(part), wait=True)

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        found = await self._client.query_batch_points(
            collection, requests=[requests.request(query) for query in queries]
        )
        return [requests.hits(response, self._payloads) for response in found]

    async def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None) -> PointPage:
        chosen = requests.selection_filter(selection)
        records, after = await self._client.scroll(collection, scroll_filter=chosen, limit=limit, offset=cursor)
        return PointPage(requests.decoded_points(records), None if after is None else str(after))

    async def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        return (await self.scroll(collection, selection, max(1, len(selection.ids or ())), None)).points

    async def count(self, collection: str, selection: Selection) -> int:
        return (
            await self._client.count(collection, count_filter=requests.selection_filter(selection), exact=True)
        ).count

    async def tenants(self, collection: str) -> list[str]:
        found = await self._client.facet(collection, "tenant", limit=MOST_TENANTS + 1, exact=True)
        return check_tenants(str(hit.value) for hit in found.hits if hit.count)

    async def delete(self, collection: str, selection: Selection) -> None:
        meant = qdrant.FilterSelector(filter=requests.selection_filter(selection))
        await self._client.delete(collection, points_selector=meant, wait=True)

    async def aclose(self) -> None:
        await self._client.close()

    def failure(self, error: Exception) -> PentadError:
        """Return our error for what a call raised."""
        return pentad_error(error, self._place)

    async def _create(self, name: str, dimensions: int) -> None:
        dense, sparse = requests.dense_config(dimensions), requests.sparse_config()
        try:
            await self._client.create_collection(name, vectors_config=dense, sparse_vectors_config=sparse)
        except Exception:
            if not await self._client.collection_exists(name):  # else another process was faster
                raise


def _dimensions_of(there: qdrant.CollectionInfo) -> int:
    """Return the dimension of a collection; 0 when Pentad did not make it."""
    vectors = there.config.params.vectors
    return int(getattr(vectors.get(Dense.TEXT.value), "size", 0)) if isinstance(vectors, dict) else 0


_MOST_ERROR_CHARS = 300
"""Characters of the server's own text that an error quotes."""
_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_UNAUTHORIZED_STATUSES = frozenset({401, 403})


def pentad_error(error: Exception, place: str) -> PentadError:
    """Return our error for what the client raised. ``place``: the server's address, without secrets."""
    if isinstance(error, PentadError):
        return error
    if isinstance(error, UnexpectedResponse):
        return _response_error(error, place)
    if isinstance(error, ResponseHandlingException):
        return MemoryOutageError(f"Qdrant at {place} cannot be reached: {error.source!r}; check QDRANT_URL")
    if isinstance(error, JSONDecodeError):
        return MemoryOutageError(f"what answers at {place} is no Qdrant: check QDRANT_URL")
    if isinstance(error, ValueError):  # the client itself refuses, as the server would
        return MemoryRefusedError(f"Qdrant refuses this: {_shortened(str(error))}")
    return MemoryOutageError(f"Qdrant at {place} fails: {_shortened(repr(error))}")


def _response_error(error: UnexpectedResponse, place: str) -> PentadError:
    status = error.status_code or 0
    if status in _UNAUTHORIZED_STATUSES:
        return MemoryOutageError(f"Qdrant at {place} does not accept our key ({status}): check QDRANT_API_KEY")
    said = f"Qdrant at {place} answered {status}: {_shortened(error.content.decode('utf-8', 'replace'))}"
    if 400 <= status < 500 and status not in _RETRYABLE_STATUSES:
        return MemoryRefusedError(said)
    return MemoryOutageError(f"{said}; try again later")


def _shortened(text: str) -> str:
    return " ".join(text.split())[:_MOST_ERROR_CHARS]
