"""The store of vectors that is a Qdrant server, 1.19 or newer, asked by its official client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pentad.shared.errors import MemoryOutageError, SettingsError
from pentad.shared.vectors.limits import (
    check_dimensions,
    check_id,
    check_limit,
    check_name,
    check_points,
    check_queries,
    check_selected_ids,
    check_selection,
)
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

if TYPE_CHECKING:
    from pentad.shared.vectors.qdrant_calls import QdrantCalls

T = TypeVar("T")

IN_MEMORY = ":memory:"
"""Instead of a URL: the client's own store in this process, slow and gone with it. For tests."""


class QdrantVectors:
    """A server that any number of processes use: see `Vectors`. The client is loaded and connects at the first use."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 5.0) -> None:
        """``timeout_s`` bounds each call. Raises ``SettingsError`` for what is no address; it is never shown whole."""
        self._url, self._api_key, self._timeout_s = url, api_key, timeout_s
        self._place = IN_MEMORY if url == IN_MEMORY else _place(url)
        self._calls: QdrantCalls | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def prepare(self, name: str, dimensions: int) -> None:
        check_name(name)
        check_dimensions(dimensions)
        await self._do(lambda calls: calls.prepare(name, dimensions))

    async def switch(self, alias: str, name: str) -> None:
        check_name(alias)
        check_name(name)
        await self._do(lambda calls: calls.switch(alias, name))

    async def collections(self) -> list[Collection]:
        return await self._do(lambda calls: calls.collections())

    async def drop(self, name: str) -> None:
        check_name(name)
        await self._do(lambda calls: calls.drop(name))

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        check_name(collection)
        check_points(points)
        if points:
            await self._do(lambda calls: calls.upsert(collection, points))

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        check_name(collection)
        check_queries(queries)
        return await self._do(lambda calls: calls.search(collection, queries)) if queries else []

    async def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        check_name(collection)
        check_selected_ids(selection)
        return await self._do(lambda calls: calls.get(collection, selection))

    async def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None = None) -> PointPage:
        check_name(collection)
        check_selection(selection)
        check_limit(limit)
        if cursor is not None:
            check_id(cursor)
        return await self._do(lambda calls: calls.scroll(collection, selection, limit, cursor))

    async def count(self, collection: str, selection: Selection) -> int:
        check_name(collection)
        check_selection(selection)
        return await self._do(lambda calls: calls.count(collection, selection))

    async def delete(self, collection: str, selection: Selection) -> None:
        check_name(collection)
        check_selection(selection)
        await self._do(lambda calls: calls.delete(collection, selection))

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        calls, self._calls = self._calls, None
        if calls is not None:
            await calls.aclose()

    async def _do(self, ask: Callable[[QdrantCalls], Awaitable[T]]) -> T:
        if self._closed:
            raise MemoryOutageError(f"the connection to Qdrant at {self._place} is closed")
        calls = await self._opened()
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await ask(calls)
        except TimeoutError:
            if not limit.expired():
                raise
            raise MemoryOutageError(
                f"Qdrant at {self._place} did not answer in {self._timeout_s:g} s: try again later"
            ) from None
        except Exception as error:
            raise calls.failure(error) from None

    async def _opened(self) -> QdrantCalls:
        async with self._opening:
            if self._calls is None:
                self._calls = await asyncio.to_thread(self._make)
            return self._calls

    def _make(self) -> QdrantCalls:
        """In a thread: to load the client takes more than a second."""
        try:
            from pentad.shared.vectors.qdrant_calls import QdrantCalls, connected
        except ImportError as error:
            raise SettingsError(f"QDRANT_URL needs its client ({error}): pip install 'pentad[stores]'") from None
        client = connected(self._url, self._api_key, self._timeout_s)
        return QdrantCalls(client, self._place, has_indexes=self._url != IN_MEMORY)


def _place(url: str) -> str:
    """The address without user, password and query. Raises ``SettingsError``."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SettingsError("QDRANT_URL is no address: write it as http://127.0.0.1:6333") from None
    return f"{parts.scheme}://{parts.hostname}{port}"
