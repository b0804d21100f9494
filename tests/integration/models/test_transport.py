"""Our HTTP transport reads what servers send, and keeps nothing that could confuse the next answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from pentad.shared.models.direct_http import DirectTransport
from tests.integration.models.conftest import until
from tests.support.waiting import PATIENCE_S


class Wire:
    """A server that answers each request with ready bytes; an answer of None leaves the connection silent."""

    def __init__(self, *answers: bytes, then_close: bool = False) -> None:
        self.answers = list(answers)
        self.then_close = then_close
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self.answers.pop(0))
                if self.then_close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(wire: Wire) -> AsyncIterator[httpx2.AsyncClient]:
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    async with server, httpx2.AsyncClient(transport=DirectTransport(10), trust_env=False) as client:
        yield client
        await client.aclose()
        await until("the server to see every connection end", lambda: all(w.is_closing() for w in wire.writers))


def sized(body: bytes, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


BODIES: dict[str, tuple[bytes, bool, bytes]] = {
    "a length": (sized(b"hello"), False, b"hello"),
    "no body": (sized(b""), False, b""),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        False,
        b"hello",
    ),
    "the end of the connection": (b"HTTP/1.1 200 OK\r\n\r\nhello", True, b"hello"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", True, b"hello"),
    "a go-on before it": (b"HTTP/1.1 100 Continue\r\n\r\n" + sized(b"hello"), False, b"hello"),
    "a megabyte": (sized(b"x" * 1_000_000), False, b"x" * 1_000_000),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_bodies_are_read_whole_by(kind: str) -> None:
    answer, close, body = BODIES[kind]
    wire = Wire(answer, then_close=close)
    async with serving(wire) as client:
        assert (await client.get(wire.url)).content == body


BROKEN: dict[str, tuple[bytes, type[Exception]]] = {
    "no answer": (b"", httpx2.ReadError),
    "half a head": (b"HTTP/1.1 200", httpx2.ReadError),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", httpx2.ReadError),
    "half a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhel", httpx2.ReadError),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n", httpx2.RemoteProtocolError),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X-Y: zzzzzzzzzz\r\n" * 40_000, httpx2.RemoteProtocolError),
    "a switch of protocols": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        httpx2.TransportError,
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_answer_is_an_error(kind: str) -> None:
    answer, expected = BROKEN[kind]
    wire = Wire(answer, then_close=True)
    async with serving(wire) as client:
        with pytest.raises(expected):
            await asyncio.wait_for(client.get(wire.url), PATIENCE_S)


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (sized(b"one"), 1),
        (sized(b"one", b"Connection: close\r\n"), 2),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\none", 2),
    ],
)
async def test_a_connection_is_kept_when_both_sides_agree(answer: bytes, connections: int) -> None:
    wire = Wire(answer, sized(b"two"))
    async with serving(wire) as client:
        assert (await client.get(wire.url)).content == b"one"
        assert (await client.get(wire.url)).content == b"two"
        assert wire.connections == connections


async def test_bytes_after_the_answer_never_become_the_next_one() -> None:
    wire = Wire(sized(b"one"), sized(b"two"))
    async with serving(wire) as client:
        assert (await client.get(wire.url)).content == b"one"
        wire.writers[0].write(sized(b"planted"))
        await until("the client to hang up", wire.writers[0].transport.is_closing)
        assert (await client.get(wire.url)).content == b"two"


async def test_an_answer_that_nobody_read_does_not_block_the_next() -> None:
    wire = Wire(sized(b"x" * 600_000), sized(b"two"))
    async with serving(wire) as client:
        async with client.stream("GET", wire.url):
            pass
        assert (await client.get(wire.url)).content == b"two"


async def test_a_redirect_to_https_is_not_followed_in_the_clear() -> None:
    wire = Wire(b"HTTP/1.1 307 Moved\r\nLocation: https://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n")
    async with serving(wire) as client:
        with pytest.raises(httpx2.UnsupportedProtocol):
            await client.post(wire.url, follow_redirects=True)


async def test_a_header_with_a_line_break_is_not_sent() -> None:
    wire = Wire(sized(b"one"))
    async with serving(wire) as client:
        with pytest.raises(httpx2.LocalProtocolError):
            await client.get(wire.url, headers={"X-Y": "a\r\nEvil: b"})
        assert wire.requests == []


async def test_requests_beyond_the_limit_wait_for_a_place() -> None:
    wire = Wire(*[sized(b"x")] * 50)
    async with serving(wire) as client:
        answers = await asyncio.gather(*(client.get(wire.url) for _ in range(50)))
        assert [answer.content for answer in answers] == [b"x"] * 50
        assert wire.connections <= 10


@pytest.mark.parametrize("refused", [lambda: "http://127.0.0.1:1/", lambda: "http://does-not-exist.invalid/"])
async def test_a_host_that_is_not_there_is_a_connect_error(refused: Callable[[], str]) -> None:
    async with httpx2.AsyncClient(transport=DirectTransport(1), trust_env=False) as client:
        for _ in range(2):  # twice: the first must give its place back
            with pytest.raises(httpx2.ConnectError):
                await client.get(refused())
