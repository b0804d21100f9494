"""A body that was encoded unasked is unpacked piece by piece, so that a small one cannot hold up what else runs."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from pentad.shared.models.response_body import read_at_most, unpacked
from pentad.shared.models.sse_decoder import PIECE

TEXT = b"".join(b"line %d\n" % number for number in range(20_000))


async def body(packed: bytes, step: int) -> AsyncIterator[bytes]:
    for at in range(0, len(packed), step):
        yield packed[at : at + step]


async def unpack(packed: bytes, encoding: str, step: int = 1 << 20) -> list[bytes]:
    return [piece async for piece in unpacked(body(packed, step), encoding)]


def raw_deflate(text: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush()


PACKED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without its header": ("deflate", raw_deflate(TEXT)),
    "gzip and more behind it": ("gzip", gzip.compress(TEXT) + b"more"),
}


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("step", [1, 1000, 1 << 20])
async def test_what_was_encoded_is_read_wherever_it_is_cut(kind: str, step: int) -> None:
    encoding, packed = PACKED[kind]
    assert b"".join(await unpack(packed, encoding, step)) == TEXT


async def test_a_bomb_comes_in_small_pieces_and_others_have_their_turn_between() -> None:
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(neighbour())
    pieces = await unpack(gzip.compress(bytes(8 << 20)), "gzip")
    beside.cancel()
    assert sum(map(len, pieces)) == 8 << 20
    assert max(map(len, pieces)) <= PIECE
    assert turns >= len(pieces)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_what_is_not_encoded_as_it_says_is_an_error_of_the_transport(encoding: str) -> None:
    with pytest.raises(httpx2.DecodingError):
        await unpack(b"\xff" * 100, encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_nothing_is_nothing(encoding: str) -> None:
    assert await unpack(b"", encoding) == []


class Packed(httpx2.AsyncByteStream):
    def __aiter__(self) -> AsyncIterator[bytes]:
        return body(gzip.compress(bytes(5 << 20)), 1 << 20)


async def test_a_bound_counts_what_a_body_says_not_what_comes() -> None:
    response = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Packed())
    read_at_most(response, 1000)
    assert await response.aread() == bytes(1000)
