"""What a client may send before it has shown a key, on every port that listens."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from pentad.shared.service.http import HttpServer, health_app
from tests.integration.service.raw_http import RawHttp, exchange
from tests.unit.service.test_running import Part

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
LAST = b"Connection: close\r\n\r\n"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = HttpServer(health_app([Part("router", [])]))
    yield await server.start()
    await server.stop()


@contextmanager
def grows_at_most(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (GET, b"x:y\r\n" * 13_107),
        (GET + b"X: ", b"a" * 65_536),
        (GET + b"X", b"a" * 65_536),
        (b"GET /", b"a" * 65_536),
        (CHUNKED + b"0\r\n", b"x:y\r\n" * 13_107),
        (CHUNKED + b"0\r\nX: ", b"a" * 65_536),
        (CHUNKED + b"5;", b"a" * 65_536),
    ],
    ids=[
        "many headers",
        "a long value",
        "a long name",
        "a long address",
        "many trailers",
        "a long trailer",
        "extension",
    ],
)
async def test_a_head_or_trailers_without_end_are_refused_and_not_kept(
    address: str, begin: bytes, piece: bytes
) -> None:
    client = await RawHttp.to(address)
    with grows_at_most(4 << 20):
        await client.send(begin)
        await client.flood(piece, 12 << 20)
        status, data = await client.answer()
    await client.aclose()
    assert status in ((431,) if begin.startswith(b"GET") else (405, 431)), "what comes first is the only answer"
    assert data.count(b"HTTP/1.1 ") == 1
    assert (await exchange(address, GET + LAST))[0] == 200


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (70_000, 431)])
async def test_a_head_of_64_kib_is_served_and_a_longer_one_is_told_so(address: str, size: int, status: int) -> None:
    said, data = await exchange(address, GET + b"X: " + b"a" * size + b"\r\n" + LAST)
    assert said == status
    if status == 431:
        head, _, body = data.partition(b"\r\n\r\n")
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["detail"] == "a request's head and its trailers have at most 65536 bytes"


async def test_a_hundred_requests_on_one_connection_are_each_counted_anew(address: str) -> None:
    client = await RawHttp.to(address)
    padding = b"X: " + b"a" * 8_000 + b"\r\n"
    await client.send((GET + padding + b"\r\n") * 99 + GET + LAST)
    status, data = await client.answer()
    await client.aclose()
    assert status == 200
    assert data.count(b"HTTP/1.1 200") == 100


async def test_a_head_that_comes_byte_by_byte_is_served(address: str) -> None:
    client = await RawHttp.to(address)
    for byte in GET + LAST:
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer())[0] == 200
    await client.aclose()


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"{}\r\n\r\n", b"\0" * 99]
)
async def test_what_is_no_request_is_answered_with_a_problem_document(address: str, data: bytes) -> None:
    status, said = await exchange(address, data)
    assert status == 400
    assert json.loads(said.partition(b"\r\n\r\n")[2])["status"] == 400
