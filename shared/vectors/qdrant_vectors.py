"""The store of vectors that is a Qdrant server, 1.19 or newer, asked by its official client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pentad.shared.errors import MemoryOutageError, SettingsError
from pentad.shared.vectors.checked_vectors import CheckedVectors
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery

if TYPE_CHECKING:
    from pentad.shared.vectors.qdrant_calls import QdrantCalls

IN_MEMORY = ":memory:"
"""URL of the client's own store in this process, for tests: slow, and lost with the process."""


class QdrantVectors(CheckedVectors):
    """The port `Vectors` for a server that many processes use. The client is loaded and connects at the first use."""

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 5.0) -> None:
        """``timeout_s`` bounds each call. Raises ``SettingsError`` for what is no address; it is never shown whole."""
        self._url, self._api_key, self._timeout_s = url, api_key, timeout_s
        self._place = IN_MEMORY if url == IN_MEMORY else _place(url)
        self._calls: QdrantCalls | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        calls, self._calls = self._calls, None
        if calls is not None:
            await calls.aclose()

    async def _upsert(self, collection: str, points: Sequence[Point]) -> None:
        if points:
            await super()._upsert(collection, points)

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        return await super()._search(collection, queries) if queries else []

    async def _call(self, call: str, *args: Any) -> Any:
        if self._closed:
            raise MemoryOutageError(f"the connection to Qdrant at {self._place} is closed")
        calls = await self._opened()
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await getattr(calls, call)(*args)
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
        """Make the client. Run this in a thread: loading the client takes more than a second."""
        try:
            from pentad.shared.vectors.qdrant_calls import QdrantCalls, connected
        except ImportError as error:
            raise SettingsError(f"QDRANT_URL needs its client ({error}): pip install 'pentad[stores]'") from None
        client = connected(self._url, self._api_key, self._timeout_s)
        return QdrantCalls(client, self._place, has_indexes=self._url != IN_MEMORY)


def _place(url: str) -> str:
    """Return the address without user, password and query. Raises ``SettingsError``."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SettingsError("QDRANT_URL is no address: write it as http://127.0.0.1:6333") from None
    return f"{parts.scheme}://{parts.hostname}{port}"
