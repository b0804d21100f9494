"""The HTTP client of outbound requests: each connection, also after a redirect, goes to an address that was checked.

It keeps nothing from one request to the next: no connection, no cookie. Proxies of the environment are not used, since
the proxy would look names up again. Import this module late: it imports the HTTP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from pentad.shared.clipping import plain, said_by
from pentad.shared.models.response_body import strange_encoding, unpacked
from pentad.shared.outbound.address_guard import AddressGuard, LostAnswerError, OutboundError, Resolver

MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes of a body, unpacked, that are read; the rest is left."""
MAX_REDIRECTS = 5
TIMEOUT_S = 20.0
"""Seconds that a request may take from the look-up of its host to the end of its body."""
MAX_URL_CHARS = 2_000
_CONNECT_S = 5.0
"""Seconds for a connection to one address of a host."""
_MAX_ADDRESSES = 4
"""Addresses of one host that are tried."""
_MAX_AT_ONCE = 16
"""Requests of one client that are under way; more wait, within their time."""
_LOOK_UP_THREADS = 8
_PORTS = {"http": 80, "https": 443}
_HEADERS = {"user-agent": "pentad", "accept-encoding": "identity"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


_SENDING = "send_request_headers.started"
"""End of the name of the step from which on a server may have received a request."""


@dataclass(frozen=True, slots=True)
class OutsideRequest:
    """A request to a server outside."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the request, which go with each redirect."""
    own_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers for the server at ``url`` alone: a redirect to another scheme, host or port goes without them."""
    content: bytes = field(default=b"", repr=False)
    redirects: int = 0
    """Redirects that are followed; with none, a redirect is the answer."""
    timeout_s: float | None = None
    """Seconds for the whole request; None: those of the client."""


@dataclass(frozen=True, slots=True)
class OutsideAnswer:
    """The answer of a server outside."""

    url: str
    """The URL that answered, after redirects."""
    status: int
    content_type: str
    """Media type with its parameters, as the server gives it; '' where it gives none."""
    body: bytes
    length: int | None
    """Bytes of the whole body as the server announces them."""
    is_cut: bool
    """Whether the body is longer than what was read."""
    retry_after: str = ""
    """Words of the server about when to try again; '' where it says nothing."""


class _Progress:
    """Whether a server may have received a request."""

    def __init__(self) -> None:
        self.is_sent = False

    async def note(self, step: str, _: object) -> None:
        """Take note of a step of the HTTP client."""
        self.is_sent = self.is_sent or step.endswith(_SENDING)


class OutsideClient:
    """Sends requests to servers outside.

    ``allowed``: hosts that may lead inside, as ``AddressGuard`` takes them; None: all may, for addresses that the
    operator answers for. ``timeout_s``: of a whole request. ``at_once``: requests that are under way.
    ``resolver`` and ``wire``: look names up and carry requests to checked addresses in place of the system's.
    """

    def __init__(
        self,
        allowed: tuple[str, ...] | None = (),
        *,
        timeout_s: float = TIMEOUT_S,
        at_once: int = _MAX_AT_ONCE,
        resolver: Resolver | None = None,
        wire: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._threads = ThreadPoolExecutor(_LOOK_UP_THREADS, "names")
        guard = AddressGuard(allowed or (), resolver=resolver, executor=self._threads)
        self._guard = None if allowed is None else guard
        self._timeout_s = timeout_s
        self._wire = wire
        self._places = asyncio.Semaphore(at_once)

    async def get(
        self,
        url: str,
        *,
        accept: str = "*/*",
        wants: Callable[[str], bool] = lambda _: True,
        redirects: int = MAX_REDIRECTS,
    ) -> OutsideAnswer:
        """Get a URL, and follow so many ``redirects``; with 0 a redirect is the answer. ``wants``: says by its content
        type whether a body is read.

        Raises ``OutboundError``.
        """
        request = OutsideRequest("GET", url, {"accept": accept}, redirects=redirects)
        return await self.send(request, wants=wants)

    async def post(self, url: str, content: bytes, headers: Mapping[str, str]) -> OutsideAnswer:
        """Post a body. A redirect is the answer: neither the body nor the headers are sent on.

        Raises ``OutboundError``.
        """
        return await self.send(OutsideRequest("POST", url, headers, content=content))

    async def aclose(self) -> None:
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._wire is not None:
            await self._wire.aclose()

    async def send(self, request: OutsideRequest, *, wants: Callable[[str], bool] = lambda _: True) -> OutsideAnswer:
        """Send a request. ``wants``: says by its content type whether a body is read.

        Raises ``OutboundError``, and ``LostAnswerError`` once the server may have received the request.
        """
        progress = _Progress()
        place = _parsed(request.url)
        limit_s = self._timeout_s if request.timeout_s is None else request.timeout_s
        try:
            async with asyncio.timeout(limit_s), self._places:
                return await self._followed(request, place, wants, progress, limit_s)
        except TimeoutError:
            why = f"{_shown(place)} took longer than {limit_s:g} s: try again later"
        except httpx2.ConnectError:
            raise OutboundError(f"no connection to {_shown(place)}: it is not there, or refuses") from None
        except httpx2.HTTPError as error:
            why = f"{_shown(place)} did not answer in HTTP: {plain(said_by(error), 200)}"
        raise LostAnswerError(why) if progress.is_sent else OutboundError(why)

    async def _followed(
        self,
        request: OutsideRequest,
        place: httpx2.URL,
        wants: Callable[[str], bool],
        progress: _Progress,
        limit_s: float,
    ) -> OutsideAnswer:
        """Return the answer to a request, after its redirects."""
        headers = {**_HEADERS, **request.headers, **request.own_headers}
        for _ in range(request.redirects + 1):
            sent = httpx2.Request(request.method, place, headers=headers, content=request.content or None)
            async with self._sent(sent, progress, limit_s) as response:
                onward = response.headers.get("location") if response.status_code in _REDIRECTS else None
                if onward is None or not request.redirects:
                    return await _read(response, place, wants)
                before, place = place, _joined(place, onward)
                if _origin(before) != _origin(place):
                    headers = {**_HEADERS, **request.headers}
        raise OutboundError(
            f"{_shown(_parsed(request.url))} was redirected more than {request.redirects} times: try another address"
        )

    @asynccontextmanager
    async def _sent(
        self, request: httpx2.Request, progress: _Progress, limit_s: float
    ) -> AsyncIterator[httpx2.Response]:
        response = await self._send(request, progress, limit_s)
        try:
            yield response
        finally:
            await response.aclose()

    async def _send(self, request: httpx2.Request, progress: _Progress, limit_s: float) -> httpx2.Response:
        """Send a request to the first checked address of its host that takes connections."""
        host = request.url.raw_host.decode("ascii")
        port = request.url.port if request.url.port is not None else _PORTS[request.url.scheme]
        wire = await self._carrier()
        failure: httpx2.HTTPError | None = None
        found = [host] if self._guard is None else await self._guard.addresses(host, port)
        for address in found[:_MAX_ADDRESSES]:
            limits = httpx2.Timeout(limit_s, connect=_CONNECT_S).as_dict()
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={"timeout": limits, "sni_hostname": host.removesuffix("."), "trace": progress.note},
            )
            try:
                return await wire.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise httpx2.ConnectError("none of its addresses takes connections") from failure

    async def _carrier(self) -> httpx2.AsyncBaseTransport:
        """Return what carries requests, made with the first: reading the certificates takes tens of milliseconds.

        A connection is made for one request alone: kept, one for another host of the same address could be used again
        without its certificate being checked.
        """
        if self._wire is None:
            tls = await asyncio.to_thread(httpx2.create_ssl_context)
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._wire = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)
        return self._wire


async def _read(response: httpx2.Response, place: httpx2.URL, wants: Callable[[str], bool]) -> OutsideAnswer:
    kind = response.headers.get("content-type", "")[:200]
    announced = response.headers.get("content-length", "")
    length = int(announced) if announced.isdecimal() and len(announced) < 16 else None
    body, is_cut = b"", False
    if wants(kind):
        body, is_cut = await _body(response, place)
    again = response.headers.get("retry-after", "")[:100]
    return OutsideAnswer(str(place), response.status_code, kind, body, length, is_cut, again)


async def _body(response: httpx2.Response, place: httpx2.URL) -> tuple[bytes, bool]:
    """Return the body, unpacked, and whether it goes on."""
    if strange := strange_encoding(response):
        raise LostAnswerError(f"{_shown(place)} encodes its answer as {plain(strange, 50)}, which cannot be read")
    encoding = response.headers.get("content-encoding", "").strip().lower()
    raw = response.aiter_raw()
    read = bytearray()
    async with aclosing(unpacked(raw, encoding) if encoding not in ("", "identity") else raw) as parts:
        async for part in parts:
            read += part
            if len(read) > MAX_BODY_BYTES:
                return bytes(read[:MAX_BODY_BYTES]), True
    return bytes(read), False


def _parsed(url: str) -> httpx2.URL:
    if len(url) > MAX_URL_CHARS:
        raise OutboundError(f"the address is longer than {MAX_URL_CHARS} characters")
    try:
        return _checked(httpx2.URL(url.strip()))
    except (httpx2.InvalidURL, ValueError):
        raise OutboundError(f"{plain(url, 100)} is no address: give one like https://example.com/page") from None


def _joined(place: httpx2.URL, onward: str) -> httpx2.URL:
    """Return the URL that a redirect leads to."""
    try:
        if len(onward) <= MAX_URL_CHARS:
            return _checked(place.join(onward))
    except (httpx2.InvalidURL, ValueError):
        pass
    raise OutboundError(f"{_shown(place)} redirects to what is no address")


def _checked(url: httpx2.URL) -> httpx2.URL:
    if url.scheme not in _PORTS or not url.host:
        raise OutboundError("only addresses that begin with http:// or https:// and name a host can be fetched")
    if url.userinfo:
        raise OutboundError("an address with a user name or a password is not fetched: leave out what is before the @")
    return url.copy_with(fragment=None)


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or _PORTS[url.scheme]


def _shown(url: httpx2.URL) -> str:
    return plain(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}{url.path}", 200)
