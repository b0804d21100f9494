"""How much of a response is read, and which, whatever its server sends. Import late: it imports the HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import httpx2

from pentad.shared.models.failures import shortened
from pentad.shared.models.ports import ModelMisconfigured

_MOST_ERROR = 64 * 1024
_READABLE = frozenset({"", "identity", "gzip", "deflate"})


def read_at_most(response: httpx2.Response, most: int) -> None:
    """Let the body end after so many bytes as they came. The connection is closed with what is left on it."""
    response.stream = _Beginning(cast(httpx2.AsyncByteStream, response.stream), most)


async def bound_error(response: httpx2.Response) -> None:
    """Let what is no answer, an error or a redirect, be no longer than 64 KiB. A hook of the HTTP client's."""
    if not response.is_success:
        read_at_most(response, _MOST_ERROR)


def strange_encoding(response: httpx2.Response) -> str:
    """The encoding of a body that cannot be read; '' for one that can. No server was asked for any."""
    given = (name.strip().lower() for name in response.headers.get("content-encoding", "").split(","))
    return ", ".join(name for name in given if name not in _READABLE)


def check_encoding(response: httpx2.Response, place: str) -> None:
    """Refuse a body that cannot be read. Raises `ModelMisconfigured`."""
    if strange := strange_encoding(response):
        raise ModelMisconfigured(
            f"the model server at {place} encodes its answers ({shortened(strange)}) although it is asked not to: turn "
            "compression off there, or in the proxy before it"
        )


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
