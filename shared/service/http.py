"""The HTTP interface of every service: ``/healthz``, ``/readyz`` and ``/metrics``; and the server under it.

Uvicorn and Starlette are imported on first use, off the loop: a service consumes before it serves.
"""

import asyncio
import hmac
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pentad.shared.addresses import is_loopback
from pentad.shared.service.connections import ConnectionLimits
from pentad.shared.service.problem_document import MEDIA_TYPE, problem_document
from pentad.shared.service.process import settle
from pentad.shared.service.runnable import (
    DEFAULT_HOST,
    CountsElsewhere,
    HasNotes,
    RunnableService,
    StartsWithout,
    address_of,
    claim_port,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from pentad.shared.service.uvicorn_server import QuietServer

NOTE = "note: "
"""Begins what readiness says of something that does not keep a service from serving."""
GRACE_S = 5
"""Seconds that answers under way get when a server stops."""
_LIMITS = ConnectionLimits()
_NO_KEY = "metrics need PENTAD_METRICS_KEY (or, of the gateway, PENTAD_ADMIN_KEY) as a bearer token here"
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
"""How an address ends that names the port which its scheme means anyway."""
Headers = Iterable[tuple[bytes, bytes]]


def unmet(services: Sequence[RunnableService]) -> dict[str, str]:
    """The checks that fail, by ``service.check``; empty when all is good. A check that raises has failed."""
    return {name: wrong for name, wrong in all_checks(services).items() if wrong is not None}


def outages_of(service: RunnableService) -> Collection[str]:
    """Return the names of a service's failed checks for which no start waits."""
    return service.outages() if isinstance(service, StartsWithout) else ()


def awaited(services: Sequence[RunnableService]) -> dict[str, str]:
    """Return the failed checks for which a start waits, by ``service.check``."""
    known = {f"{service.name}.{name}" for service in services for name in outages_of(service)}
    return {name: wrong for name, wrong in unmet(services).items() if name not in known}


def all_checks(services: Sequence[RunnableService]) -> dict[str, str | None]:
    """Every check of these services, by ``service.check``."""
    return {f"{service.name}.{name}": wrong for service in services for name, wrong in checks_of(service).items()}


def checks_of(service: RunnableService) -> dict[str, str | None]:
    """Return every check of a service by its name; one check more, which has failed, when they cannot be asked."""
    try:
        return dict(service.checks())
    except Exception as error:
        return {"checks": f"{type(error).__name__}: {error}"}


def _notes(services: Sequence[RunnableService]) -> dict[str, str]:
    """Return the notes that services have for a person although they are ready."""
    said = {f"{s.name}.{name}": text for s in services if isinstance(s, HasNotes) for name, text in s.notes().items()}
    return {name: f"{NOTE}{text}" for name, text in said.items()}


def health_routes(services: Sequence[RunnableService], *, metrics_keys: Collection[str] | None = None) -> "list[Route]":
    """The three routes for these services.

    ``metrics_keys``: None leaves ``/metrics`` open to this machine, for a loopback address; otherwise one of these is
    to be presented as ``Authorization: Bearer KEY``, and without any nobody may read them.
    """
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    async def healthz(request: "Request") -> Response:
        dead = [service.name for service in services if not service.alive()]
        return PlainTextResponse(f"dead: {', '.join(dead)}" if dead else "ok", 503 if dead else 200)

    async def readyz(request: "Request") -> Response:
        checks = all_checks(services)
        return JSONResponse(checks | _notes(services), 503 if any(checks.values()) else 200)

    async def metrics(request: "Request") -> Response:
        if metrics_keys is None and (why := why_foreign(request.scope["headers"])) is not None:
            return Response(problem_document(403, why), 403, {"content-type": MEDIA_TYPE})
        if not _may_read(request.headers.get("authorization", ""), metrics_keys):
            headers = {"content-type": MEDIA_TYPE, "www-authenticate": "Bearer"}
            return Response(problem_document(401, _NO_KEY), 401, headers)
        await asyncio.gather(*(each.fetch_counts() for each in services if isinstance(each, CountsElsewhere)))
        return _exposition()

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


def _may_read(authorization: str, keys: Collection[str] | None) -> bool:
    if keys is None:
        return True
    scheme, _, given = authorization.partition(" ")
    fits = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in keys]
    return scheme.lower() == "bearer" and any(fits)


def _exposition() -> "Response":
    from starlette.responses import Response

    from pentad.shared.metrics import exposition

    body, content_type = exposition()
    return Response(body, headers={"content-type": content_type})


class HttpServer:
    """An ASGI app on a port of this process's running loop, from ``start`` to ``stop``.

    ``port`` None: ``default_port``, or a free one when that is taken; an explicit port that is taken is refused.
    ``grace_s``: how long answers under way may last when it stops; WebSockets are closed at once with 1012.
    ``limits``: of its connections.
    """

    def __init__(
        self,
        app: Any,
        host: str = DEFAULT_HOST,
        port: int | None = None,
        *,
        default_port: int = 0,
        grace_s: int = GRACE_S,
        limits: ConnectionLimits = _LIMITS,
    ) -> None:
        self._app = app
        self._limits = limits
        self._host = host
        self._port = port
        self._default_port = default_port
        self._grace_s = grace_s
        self._socket: socket.socket | None = None
        self._server: QuietServer | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""
        """``http://HOST:PORT``, once claimed."""

    def claim(self) -> str:
        """Take the port, ahead of ``start``, which does it too. Raises ``SettingsError`` when it cannot be had."""
        if self._socket is None:
            self._socket = claim_port(self._host, self._port, self._default_port)
            self.address = address_of(self._socket, self._host)
        return self.address

    async def start(self) -> str:
        """Serve; returns the address. Raises what ``claim`` raises."""
        self.claim()
        assert self._socket is not None
        self._server = await asyncio.to_thread(_make_server, self._app, self._grace_s, self._limits)
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="http")
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait({up, self._task}, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()
        return self.address

    async def stop(self) -> None:
        """Close WebSockets with 1012, let answers end, close the port. Harmless when not started."""
        server, task, sock = self._server, self._task, self._socket
        self._server = self._task = self._socket = None
        if server is not None and task is not None:
            server.finish()
            await asyncio.wait({task})
        if sock is not None:
            sock.close()

    def alive(self) -> bool:
        """Return False once the server has ended by itself."""
        return self._task is None or not self._task.done()


def _make_server(app: Any, grace_s: int, limits: ConnectionLimits) -> "QuietServer":
    """Imports everything that serving needs; takes 0.2 s the first time, which is why it happens in a thread."""
    import starlette.applications  # noqa: F401 - so that the first request does not pay for it

    from pentad.shared.service.uvicorn_server import QuietServer

    return QuietServer(app, grace_s, limits)


def lazily(make: Callable[[], Any]) -> Any:
    """An ASGI app that is made at its first request: what it imports costs nothing before."""
    made: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if not made:
            made.append(make())
            settle()
        await made[0](scope, receive, send)

    return app


def health_app(services: Sequence[RunnableService], *, metrics_keys: Collection[str] | None = None) -> Any:
    """The three routes as an app of their own; on a loopback address (no ``metrics_keys``) for this machine only."""

    def make() -> Any:
        from starlette.applications import Starlette

        app = Starlette(routes=list(health_routes(services, metrics_keys=metrics_keys)))
        return _for_this_machine(app) if metrics_keys is None else app

    return lazily(make)


def _for_this_machine(inner: Any) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        why = why_foreign(scope["headers"]) if scope["type"] == "http" else None
        if why is None:
            await inner(scope, receive, send)
            return
        headers = [(b"content-type", MEDIA_TYPE.encode())]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": problem_document(403, why)})

    return app


def why_foreign(headers: Headers, origins: Collection[str] = ()) -> str | None:
    """Return why a request over loopback comes from elsewhere, a page of another site or another name; else None.

    Pages are let in from our own address, and from these ``origins``: any program of this machine may serve a page at
    another port. A page's requests name where it is from in ``Origin``.
    """
    hosts, pages = [], []
    for name, value in headers:
        if name == b"host":
            hosts.append(value.decode("latin-1"))
        elif name == b"origin":
            pages.append(value.decode("latin-1"))
    if not all(is_loopback(_host_in(f"//{host}")) for host in hosts):
        return "this is open to this machine only: use http://127.0.0.1"
    for page in pages:
        if page not in origins and not any(_is_origin_of(page, host) for host in hosts):
            return "pages of other sites may not talk to this: name theirs in PENTAD_CORS_ORIGINS"
    return None


def _is_origin_of(origin: str, host: str) -> bool:
    """Whether the page at an origin was loaded from the host that it now talks to."""
    scheme, _, place = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    return port is not None and place.lower().removesuffix(port) == host.lower().removesuffix(port)


def _host_in(url: str) -> str:
    """The host of a URL, '' when there is none, or more than a host: a user, a path, a blank within."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if url.endswith(f"//{parts.netloc}") and "@" not in url else ""
    except ValueError:
        return ""
