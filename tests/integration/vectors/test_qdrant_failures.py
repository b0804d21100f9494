"""A server that is away, slow, refuses our key or answers nonsense: told in words that help, without secrets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, PentadError, SettingsError
from pentad.shared.vectors.qdrant_vectors import QdrantVectors
from pentad.shared.vectors.selection import Selection
from tests.support.point_maker import ADA, point
from tests.support.ports import free_port

SECRET = "a-very-secret-key"


@asynccontextmanager
async def answering(status: str, body: str = "{}", wait: bool = False) -> AsyncIterator[str]:
    """The address of an HTTP server that gives everybody this answer, or none at all."""

    under_way: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.append(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        if wait:
            await reader.read()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{body}".encode())
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://user:{SECRET}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*(task for task in under_way if task))


ANSWERS: list[tuple[str, str, type[PentadError], str]] = [
    ("401 Unauthorized", "{}", MemoryOutageError, "QDRANT_API_KEY"),
    ("403 Forbidden", "{}", MemoryOutageError, "QDRANT_API_KEY"),
    ("400 Bad Request", '{"status":{"error":"wrong vector"}}', MemoryRefusedError, "wrong vector"),
    ("404 Not Found", '{"status":{"error":"no collection"}}', MemoryRefusedError, "no collection"),
    ("429 Too Many Requests", "{}", MemoryOutageError, "again later"),
    ("500 Internal Server Error", "no disk", MemoryOutageError, "no disk"),
    ("200 OK", "<html>", MemoryOutageError, "no Qdrant"),
    ("200 OK", '{"result": 7}', MemoryOutageError, "Qdrant at"),
]


@pytest.mark.parametrize(("status", "body", "kind", "why"), ANSWERS)
async def test_an_answer_that_helps_nobody_is_told(status: str, body: str, kind: type[PentadError], why: str) -> None:
    async with answering(status, body) as url:
        vectors = QdrantVectors(url, SECRET)
        with pytest.raises(kind, match=why) as caught:
            await vectors.upsert("memory", [point("a")])
        await vectors.aclose()
    assert SECRET not in str(caught.value)


async def test_a_server_that_is_away_is_an_outage() -> None:
    vectors = QdrantVectors(f"http://127.0.0.1:{free_port()}", SECRET)
    with pytest.raises(MemoryOutageError, match="QDRANT_URL") as caught:
        await vectors.prepare("memory", 3)
    assert SECRET not in str(caught.value)
    await vectors.aclose()


async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async with answering("200 OK", wait=True) as url:
        vectors = QdrantVectors(url, timeout_s=0.2)
        with pytest.raises(MemoryOutageError, match=r"did not answer in 0\.2 s"):
            await vectors.count("memory", Selection(ADA))
        await vectors.aclose()


@pytest.mark.parametrize("url", ["", "qdrant", "ftp://h", "http://", "http://h:x", f"qdrant://:{SECRET}@h"])
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="QDRANT_URL") as caught:
        QdrantVectors(url)
    assert SECRET not in str(caught.value)
