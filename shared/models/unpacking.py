"""Bodies that are encoded although nobody asked for it, unpacked. Import late: it imports the HTTP client."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import httpx2

from pentad.shared.models.sse_decoder import PIECE

_GZIP = zlib.MAX_WBITS | 16
_ZLIB_METHOD = 8


async def unpacked(packed: AsyncIterable[bytes], encoding: str) -> AsyncGenerator[bytes, None]:
    """The body in pieces of at most 16 KiB, with a turn for others after each: a kilobyte can hold a megabyte.

    ``encoding``: ``gzip`` or ``deflate``. Raises ``httpx2.DecodingError``.
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
