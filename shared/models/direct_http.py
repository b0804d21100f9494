"""HTTP/1.1 for the official client, with and without TLS, on asyncio and httptools.

It costs a third of the CPU that the client's own transport costs, and no more with each open connection
(docs/decisions/0007). Servers behind a proxy are spoken to through the client's own.
Import this module late: it imports the HTTP client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import httpx2

from pentad.shared.models.connection import ModelConnection, Origin
from pentad.shared.models.response_body import bound_error

Repeat = Callable[[bytes | None], Awaitable[httpx2.Response]]
"""Sends a known request with another body and returns the response, whose body is still to be read."""

_PORTS = {"http": 80, "https": 443}
_ANSWERED = "pentad.answered"
"""The extension of a request that holds the response which is there already."""
IDLE_S = 30.0
"""Seconds for which an unused connection is kept."""
MAX_IDLE_CONNECTIONS = 200
"""Unused connections that are kept to one server."""


def again(request: httpx2.Request, body: bytes | None) -> httpx2.Request:
    """Return the same request with another body."""
    headers = request.headers.copy()
    headers.pop("content-length", None)
    more = dict(request.extensions)
    return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=more)


class DirectClient(httpx2.AsyncClient):
    """The HTTP client that carries the official client's requests: without authentication in rounds, and without
    cookies."""

    def __init__(self, max_connections: int, scheme: str, trust_env: bool) -> None:
        self._carrier = DirectTransport(max_connections, scheme)
        hooks: Any = {"response": [bound_error]}
        super().__init__(transport=self._carrier, trust_env=trust_env, follow_redirects=True, event_hooks=hooks)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **given: Any) -> httpx2.Response:
        """Send a request as `httpx2.AsyncClient.send` does, which is called where the answer takes more than reading
        it."""
        response = await self._carrier.handle_async_request(request)
        if response.has_redirect_location or not stream:
            return await super().send(_with_response(request, response), stream=stream, **given)
        await bound_error(response)
        return response

    def repeating(self, request: httpx2.Request) -> Repeat:
        """Return a function that sends this request with other bodies. Its head is put together once."""
        head = _head(request, b"content-length").removesuffix(b"\r\n")
        bodiless = request.method == "GET"

        async def repeat(body: bytes | None) -> httpx2.Response:
            content = body or b""
            length = b"" if bodiless else b"Content-Length: %d\r\n" % len(content)
            response = await self._carrier.exchange(request, head + length + b"\r\n" + content)
            if response.is_success:
                return response
            if response.has_redirect_location:
                return await super(DirectClient, self).send(_with_response(again(request, body), response), stream=True)
            await bound_error(response)
            return response

        return repeat


class DirectTransport(httpx2.AsyncBaseTransport):
    """Keeps idle connections per origin. A request beyond `max_connections` waits for another one to end.

    The transport speaks one scheme, ``http`` or ``https``: a redirect to the other would be followed with each request,
    and is refused with what to do. Certificates are checked against those that the environment names (SSL_CERT_FILE),
    else against the usual ones.
    """

    def __init__(self, max_connections: int, scheme: str = "http") -> None:
        self._scheme = scheme
        self._tls: ssl.SSLContext | None = None
        self._idle: dict[Origin, list[ModelConnection]] = {}
        self._places = asyncio.Semaphore(max_connections)
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request, return when the response's head is there. Raises `httpx2.TransportError`."""
        known: httpx2.Response | None = request.extensions.pop(_ANSWERED, None)
        if known is not None:
            return known
        return await self.exchange(request, _head(request) + await request.aread())

    async def exchange(self, request: httpx2.Request, data: bytes) -> httpx2.Response:
        """Send these bytes to the request's origin, and return as `handle_async_request` does."""
        self._check_scheme(request)
        await self._places.acquire()
        line: ModelConnection | None = None
        try:
            line = self._kept(_origin(request)) or await self._connect(request)
            status, headers = await line.ask(data)
        except BaseException:
            self._release(line)
            raise
        return httpx2.Response(status, headers=headers, stream=_Body(self, line), request=request)

    async def aclose(self) -> None:
        """Close the idle connections."""
        self._closed = True
        lines = [line for lines in self._idle.values() for line in lines]
        self._idle.clear()
        for line in lines:
            line.hang_up()
        await asyncio.gather(*(line.gone for line in lines))

    async def __aenter__(self) -> DirectTransport:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    def give_back(self, line: ModelConnection) -> None:
        """Keep a connection whose answer was read to its end, and close any other."""
        idle = self._idle.setdefault(line.origin, [])
        reusable = line.reusable and len(idle) < MAX_IDLE_CONNECTIONS and not self._closed
        if reusable:
            line.idle_since = asyncio.get_running_loop().time()
            idle.append(line)
        self._release(None if reusable else line)

    def _release(self, line: ModelConnection | None) -> None:
        self._places.release()
        if line is not None:
            line.hang_up()

    def _kept(self, origin: Origin) -> ModelConnection | None:
        idle = self._idle.get(origin)
        oldest = asyncio.get_running_loop().time() - IDLE_S
        while idle:
            line = idle.pop()
            if line.reusable and line.idle_since > oldest:
                return line
            line.hang_up()
        return None

    async def _connect(self, request: httpx2.Request) -> ModelConnection:
        origin = _origin(request)
        limits = request.extensions.get("timeout") or {}
        loop = asyncio.get_running_loop()
        tls = await self._tls_context() if self._scheme == "https" else None
        try:
            async with asyncio.timeout(limits.get("connect")):
                _, line = await loop.create_connection(lambda: ModelConnection(origin), *origin, ssl=tls)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("it took too long to connect") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        return line

    def _check_scheme(self, request: httpx2.Request) -> None:
        if request.url.scheme != self._scheme:
            there = f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"
            raise httpx2.UnsupportedProtocol(f"its server sends requests on to {there}: use that as the base URL")

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # reading the certificates takes tens of milliseconds
            self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        return self._tls


class _Body(httpx2.AsyncByteStream):
    """The body of a response; closing it gives the connection back."""

    def __init__(self, owner: DirectTransport, line: ModelConnection) -> None:
        self._owner = owner
        self._line: ModelConnection | None = line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._line is not None and (data := await self._line.read()):
            yield data

    async def aclose(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._owner.give_back(line)


def _with_response(request: httpx2.Request, response: httpx2.Response) -> httpx2.Request:
    """Return the request with its response attached: the client then goes on from that response, most often to a
    redirect."""
    request.extensions[_ANSWERED] = response
    return request


def _origin(request: httpx2.Request) -> Origin:
    return request.url.host, request.url.port or _PORTS[request.url.scheme]


def _head(request: httpx2.Request, without: bytes = b"") -> bytes:
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw if name.lower() != without]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx2.LocalProtocolError("a header holds a line break")
    return b"\r\n".join(lines) + b"\r\n\r\n"
