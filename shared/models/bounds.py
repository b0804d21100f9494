"""How much of a response is read, whatever its server sends. Import late: it imports the HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import httpx2

_MOST_ERROR = 64 * 1024


def read_at_most(response: httpx2.Response, most: int) -> None:
    """Let the body end after so many bytes as they came. The connection is closed with what is left on it."""
    response.stream = _Beginning(cast(httpx2.AsyncByteStream, response.stream), most)


async def bound_error(response: httpx2.Response) -> None:
    """Let what is no answer, an error or a redirect, be no longer than 64 KiB. A hook of the HTTP client's."""
    if not response.is_success:
        read_at_most(response, _MOST_ERROR)


class _Beginning(httpx2.AsyncByteStream):
    def __init__(self, whole: httpx2.AsyncByteStream, most: int) -> None:
        self._whole = whole
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._whole:
            yield part[: self._left]
            self._left -= len(part)
            if self._left <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()
