"""A server that runs elsewhere, over HTTP.

The SDK ends all calls of a connection when one request fails on its way. So failures of the network, refusals and
answers that are too large become answers of the protocol here, of the one request that they concern.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ssl import SSLContext
from typing import Any

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from pydantic_core import from_json, to_json

from pentad.contracts.plain_json import values_in
from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.links import (
    INSUFFICIENT_SCOPE,
    LOST,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_VALUES,
    NOT_SENT,
    SESSION_GONE,
    SIGN_IN,
    TOO_LARGE,
    Bearer,
    Challenge,
    SignInError,
)
from pentad.services.tool_worker.servers.pace import Pace
from pentad.shared.clipping import plain, said_by
from pentad.shared.outbound.address_guard import AddressGuard, OutboundError

_CONNECT_S = 10.0
_CLOSE_S = 3.0
"""Seconds to tell a server that its session is over."""
_PORTS = {"http": 80, "https": 443}
_MAX_ADDRESSES = 4
"""Addresses of one host that are tried."""
_MAX_CONNECTIONS = 100
"""Connections to one server at once."""
_SHOWN = 200
_MAX_CHALLENGE = 8_192
"""Characters of a header in which a server says how to sign in."""
_SESSION = "mcp-session-id"
_NOT_REACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_SESSION_WORD = re.compile(rb"session", re.IGNORECASE)
_ADVICE = {
    401: ": it wants to know who asks; see headers of its entry",
    403: ": it does not let us in; see headers of its entry",
    404: ": there is no such path; see url of its entry",
    405: ": it may speak the older HTTP with SSE; try type sse",
}


class HttpLink:
    """The link to a server over HTTP. ``guard``: checks addresses; None for an address that an operator's file names.

    ``longest_s``: seconds that a call may take. ``bearer``: whose requests they are; None where nobody can sign in.
    """

    has_ended = False

    def __init__(
        self, server: ToolServer, guard: AddressGuard | None, longest_s: float, bearer: Bearer | None = None
    ) -> None:
        self._server, self._longest_s = server, longest_s
        self._wire = CheckedWire(guard, longest_s, bearer)

    def about(self) -> str:
        return self._wire.trouble

    def words(self) -> str:
        return ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """Make ready for requests; none is sent yet, but of a server with SSE."""
        url = str(self._server.url)
        if self._server.sse:
            async with sse_client(url, dict(self._server.headers), httpx_client_factory=self._sse_client) as streams:
                yield streams
            return
        async with (
            self._client(dict(self._server.headers)) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams

    def _client(self, headers: dict[str, str]) -> httpx2.AsyncClient:
        limits = httpx2.Timeout(_CONNECT_S, read=None)
        headers = {"user-agent": "pentad", "accept-encoding": "identity", **headers}
        return httpx2.AsyncClient(transport=self._wire, headers=headers, timeout=limits, trust_env=False)

    def _sse_client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return self._client(headers or {})


class CheckedWire(httpx2.AsyncBaseTransport):
    """Carries requests to checked addresses. Failures of a request with a message are answered in its name."""

    def __init__(self, guard: AddressGuard | None, longest_s: float, bearer: Bearer | None = None) -> None:
        self._guard, self._bearer = guard, bearer
        self._wire: httpx2.AsyncHTTPTransport | None = None
        self._read_s = {"POST": longest_s + 10, "DELETE": _CLOSE_S}
        self.trouble = ""
        """Reason why the last request failed; '' for one that did not."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return its answer."""
        try:
            response = await self._send_as_user(request)
            if _is_stream(response):
                self.trouble = ""
                stream = _PacedStream(response)
                return httpx2.Response(response.status_code, headers=response.headers, stream=stream)
            try:
                body = await _body(response)
            finally:
                await response.aclose()
        except (httpx2.TransportError, OutboundError, _AnswerTooLargeError) as error:
            return self._failed(request, error)
        if response.status_code < 400:
            self.trouble = ""
            return httpx2.Response(response.status_code, headers=_plain_headers(response), content=body)
        return self._refused(request, response, body)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._wire is not None:
            await self._wire.aclose()

    def _failed(self, request: httpx2.Request, error: Exception) -> httpx2.Response:
        """Answer a request that has failed. Raises the error for a request without a message."""
        place = f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"
        if isinstance(error, OutboundError):
            code, text = NOT_SENT, str(error)
        elif isinstance(error, _NOT_REACHED):
            code, text = NOT_SENT, f"no connection to {place}: it is not there, or refuses"
        elif isinstance(error, _AnswerTooLargeError):
            code, text = TOO_LARGE, str(error)
        else:
            code, text = (
                LOST,
                f"the connection to {place} broke: {plain(said_by(error), _SHOWN) or type(error).__name__}",
            )
        self.trouble = text
        if (answered := _answer(request, code, text)) is None:
            raise error if isinstance(error, httpx2.TransportError) else httpx2.ConnectError(text)
        return answered

    def _refused(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        """Return a refusal as the protocol has it."""
        status = response.status_code
        if _SESSION in request.headers and (status == 404 or (status == 400 and _SESSION_WORD.search(body))):
            answered = _answer(request, SESSION_GONE, "the server does not know the session any more")
            if answered is not None:
                return answered
        text = f"the server answered HTTP {status}{_ADVICE.get(status, '')}"
        if self._bearer is not None and (challenge := _challenge(response)) is not None:
            self.trouble = text = f"the server answered HTTP {status}: a person has to sign in"
            answered = _answer(request, SIGN_IN, text, challenge)
            if answered is not None:
                return answered
        self.trouble = text
        if _is_error(body):
            return httpx2.Response(status, headers=_plain_headers(response), content=body)
        code = LOST if status in (502, 503, 504) else -32603
        answered = _answer(request, code, text)
        return answered or httpx2.Response(status, headers=_plain_headers(response), content=body)

    async def _send_as_user(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with the user's token; once more with another, where the server takes that one no more."""
        if self._bearer is None:
            return await self._send(request)
        used = await self._bearer.token()
        response = await self._send(_bearing(request, used))
        if response.status_code != 401 or used is None:
            return response
        try:
            renewed = await self._bearer.renewed(used)
        except SignInError:
            await response.aclose()
            raise
        if renewed is None:
            return response
        await response.aclose()
        return await self._send(_bearing(request, renewed))

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of its host that takes connections."""
        wire = await self._carrier()
        limits = httpx2.Timeout(_CONNECT_S, read=self._read_s.get(request.method)).as_dict()
        extensions = {**request.extensions, "timeout": limits}
        if self._guard is None:
            request.extensions = extensions
            return await wire.handle_async_request(request)
        host = request.url.raw_host.decode("ascii")
        port = request.url.port or _PORTS[request.url.scheme]
        failure: Exception | None = None
        for address in _first(await self._guard.addresses(host, port)):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions=extensions | {"sni_hostname": host.removesuffix(".")},
            )
            try:
                return await wire.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise httpx2.ConnectError("none of its addresses takes connections") from failure

    async def _carrier(self) -> httpx2.AsyncHTTPTransport:
        if self._wire is None:
            tls = await asyncio.to_thread(_tls)
            limits = httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=10)
            self._wire = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)
        return self._wire


class _AnswerTooLargeError(Exception):
    """An answer is larger than is read, or in a form that is not unpacked. The text says which."""


class _PacedStream(httpx2.AsyncByteStream):
    """A stream of events that is read no faster than a server may speak."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace()
        async for chunk in self._response.stream:  # type: ignore[union-attr]
            await pace.keep(len(chunk), chunk.count(b"\n\n") + chunk.count(b"\r\n\r\n"))
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@cache
def _tls() -> SSLContext:
    """Return the certificates that are trusted: to read them takes tens of milliseconds."""
    return httpx2.create_ssl_context()


def _is_stream(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").lower()
    return response.status_code < 300 and kind.startswith("text/event-stream") and not _is_packed(response)


def _is_packed(response: httpx2.Response) -> bool:
    return response.headers.get("content-encoding", "identity").lower() != "identity"


async def _body(response: httpx2.Response) -> bytes:
    """Return a whole body. Raises ``_AnswerTooLargeError``."""
    if _is_packed(response):
        raise _AnswerTooLargeError("the server packs its answers, which it was asked not to do")
    chunks, size = [], 0
    async for chunk in response.stream:  # type: ignore[union-attr]
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise _AnswerTooLargeError(f"the answer has more than {MAX_MESSAGE_BYTES} bytes")
        chunks.append(chunk)
    body = b"".join(chunks)
    if values_in(body, MAX_MESSAGE_VALUES) > MAX_MESSAGE_VALUES:
        raise _AnswerTooLargeError(f"the answer has more than {MAX_MESSAGE_VALUES:,} values")
    return body


def _plain_headers(response: httpx2.Response) -> list[tuple[str, str]]:
    """Return the headers that a body has which was read: not its length on the way."""
    dropped = ("content-length", "transfer-encoding")
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in dropped]


def _first(addresses: Sequence[str]) -> Sequence[str]:
    return addresses[:_MAX_ADDRESSES]


def _is_error(body: bytes) -> bool:
    """Return whether a body is an error of the protocol."""
    try:
        found = from_json(body)
    except ValueError:
        return False
    return isinstance(found, dict) and isinstance(found.get("error"), dict) and found.get("jsonrpc") == "2.0"


def _bearing(request: httpx2.Request, token: str | None) -> httpx2.Request:
    if token is not None:
        request.headers["authorization"] = f"Bearer {token}"
    return request


def _challenge(response: httpx2.Response) -> Challenge | None:
    """Return what a refusal says of how to sign in; None for one that signing in does not change."""
    if len(response.headers.get("www-authenticate", "")) > _MAX_CHALLENGE:
        return Challenge() if response.status_code == 401 else None
    error = extract_field_from_www_auth(response, "error")
    if response.status_code != 401 and (response.status_code != 403 or error != INSUFFICIENT_SCOPE):
        return None
    return Challenge(
        resource_metadata=extract_field_from_www_auth(response, "resource_metadata"),
        scope=extract_field_from_www_auth(response, "scope"),
        error=error or "",
    )


def _answer(
    request: httpx2.Request, code: int, text: str, challenge: Challenge | None = None
) -> httpx2.Response | None:
    """Return an error of the protocol as the answer to a request; None for a request that carries no call."""
    if request.method != "POST" or not hasattr(request, "_content"):
        return None
    try:
        message = from_json(request.content)
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("id") is None or "method" not in message:
        return None
    error: dict[str, Any] = {"code": code, "message": text}
    if challenge is not None:
        error["data"] = challenge.model_dump()
    body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return httpx2.Response(400, headers={"content-type": "application/json"}, content=to_json(body))
