"""Bodies of responses: read up to a size limit, and unpacked where a server encodes them without being asked to.

Import this module late: it imports the HTTP client.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any, cast

import httpx2

from pentad.shared.models.model_failures import shortened
from pentad.shared.models.ports import ModelMisconfigured
from pentad.shared.models.sse_decoder import PIECE

_MAX_ERROR_BYTES = 64 * 1024
_NO_ENCODING = frozenset({"", "identity"})
_KNOWN_ENCODINGS = frozenset({"gzip", "deflate"})


def read_at_most(response: httpx2.Response, most: int) -> None:
    """Let the body end after so many bytes of its content. The connection is closed with the rest unread."""
    unpack(response)
    response.stream = _Bounded(_stream_of(response), most)


def unpack(response: httpx2.Response) -> None:
    """Let the body come decoded, piece by piece; a body whose encoding cannot be read stays as it is."""
    if strange_encoding(response):
        return
    for encoding in _encodings(response):
        response.stream = _Unpacked(_stream_of(response), encoding)
    response.headers.pop("content-encoding", None)


async def bound_error(response: httpx2.Response) -> None:
    """Let the body of an error or a redirect be no longer than 64 KiB. This is a hook of the HTTP client."""
    if not response.is_success:
        read_at_most(response, _MAX_ERROR_BYTES)


def strange_encoding(response: httpx2.Response) -> str:
    """Return the encoding of a body that cannot be read; '' for one that can. No server was asked for any encoding."""
    given = _encodings(response)
    return "" if len(given) <= 1 and _KNOWN_ENCODINGS.issuperset(given) else ", ".join(given)


def _encodings(response: httpx2.Response) -> list[str]:
    given = (name.strip().lower() for name in response.headers.get("content-encoding", "").split(","))
    return [name for name in given if name not in _NO_ENCODING]


def _stream_of(response: httpx2.Response) -> httpx2.AsyncByteStream:
    return cast(httpx2.AsyncByteStream, response.stream)


def check_encoding(response: httpx2.Response, place: str) -> None:
    """Refuse a body whose encoding cannot be read. Raises `ModelMisconfigured`."""
    if strange := strange_encoding(response):
        raise ModelMisconfigured(
            f"the model server at {place} encodes its answers ({shortened(strange)}) although it is asked not to: turn "
            "compression off there, or in the proxy before it"
        )


class _Bounded(httpx2.AsyncByteStream):
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


class _Unpacked(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.AsyncByteStream, encoding: str) -> None:
        self._packed = packed
        self._encoding = encoding

    def __aiter__(self) -> AsyncIterator[bytes]:
        return unpacked(self._packed, self._encoding)

    async def aclose(self) -> None:
        await self._packed.aclose()


_GZIP = zlib.MAX_WBITS | 16
_ZLIB_METHOD = 8


async def unpacked(packed: AsyncIterable[bytes], encoding: str) -> AsyncGenerator[bytes, None]:
    """Yield the decoded body in pieces of at most 16 KiB, with a turn for other tasks after each: a kilobyte can hold a
    megabyte.

    ``encoding`` is ``gzip`` or ``deflate``. Raises ``httpx2.DecodingError``.
    """
    unpacker: Any = None
    async for part in packed:
        left = part
        unpacker = unpacker or _unpacker(encoding, part)
        while piece := _next_piece(unpacker, left):
            yield piece
            left = unpacker.unconsumed_tail
            await asyncio.sleep(0)
        if unpacker.eof:
            return


def _unpacker(encoding: str, beginning: bytes) -> Any:
    if encoding == "gzip":
        return zlib.decompressobj(_GZIP)
    headed = beginning[:1] and beginning[0] & 0x0F == _ZLIB_METHOD  # some servers leave the header of zlib out
    return zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)


def _next_piece(unpacker: Any, packed: bytes) -> bytes:
    try:
        return bytes(unpacker.decompress(packed, PIECE))
    except zlib.error as error:
        raise httpx2.DecodingError(f"its body is not encoded as it says: {error}") from None
