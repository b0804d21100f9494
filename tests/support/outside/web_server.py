"""A server of the web on loopback: each path has an answer, written to the socket as it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


@dataclass
class WebServer:
    """A running server. ``answers``: by path; a path without one is answered with 404."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def place(self) -> str:
        """Host and port, as an operator allows them."""
        return f"127.0.0.1:{self.port}"


def reply(
    body: bytes = b"", content_type: str = "text/html; charset=utf-8", status: str = "200 OK", **more: str
) -> bytes:
    """Return the bytes of an answer. ``more``: headers, with ``_`` for ``-``."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        *(f"{k.replace('_', '-')}: {v}" for k, v in more.items()),
    ]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return reply(b"moved", status=status, location=location)


@asynccontextmanager
async def web_server(**given: Answer) -> AsyncIterator[WebServer]:
    """Run a server while the block runs. ``given``: answers by path without its slash."""
    server = WebServer(answers={f"/{name}": answer for name, answer in given.items()})

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Received(method, target, headers, body)
            server.received.append(request)
            answer = server.answers.get(request.path, reply(b"no such page", status="404 Not Found"))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server
