"""A service as its runner sees it: it starts, stops, reports its readiness, and listens on a port.

A port is claimed before anything heavy is imported.
"""

import errno
import logging
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from pentad.contracts.streams import SERVICES, Service
from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

_PORT_STEPS = (100, 200, 300)
"""Distances from a default port that is taken to the ports that are tried next, before any free one."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORTS: Mapping[Service, int] = MappingProxyType(
    dict(zip(SERVICES, (8080, 9101, 9102, 9103, 9104, 9105), strict=True))
)


class RunnableService(Protocol):
    """One of the six services. Its composition root builds it without I/O; everything happens in ``start``."""

    name: str

    async def start(self) -> None:
        """Begin to consume. Waits for the stores that the service needs, with backoff, and logs what it waits for."""

    async def stop(self) -> None:
        """Stop reading, finish entries that are being handled or hand them back, and close."""

    def checks(self) -> Mapping[str, str | None]:
        """Return the readiness checks by name: None is good, a text says what is wrong. Cheap; called often."""

    def alive(self) -> bool:
        """Return False once a loop that should run for ever has ended: the process is to be restarted."""


@runtime_checkable
class HasNotes(Protocol):
    """A service that has notes for its operator although it is ready."""

    def notes(self) -> Mapping[str, str]:
        """Return the notes by name, which readiness shows beside the checks."""


@runtime_checkable
class StartsWithout(Protocol):
    """A service that starts although a store is away which part of its work needs."""

    def outages(self) -> Collection[str]:
        """Return the names of failed checks for which no start waits: what fails is known, and is tried again."""


@runtime_checkable
class CountsElsewhere(Protocol):
    """A service that counts in another process."""

    async def fetch_counts(self) -> None:
        """Add what was counted there to the metrics of this process. Does not wait long, and raises nothing."""


@runtime_checkable
class Announcing(Protocol):
    """A service that has a line for the person who starts it."""

    about: str
    """The line, printed before the service is reported ready."""


@runtime_checkable
class Listening(Protocol):
    """A service that opens a port of its own in ``start``."""

    address: str
    """The address ``http://HOST:PORT``, with the port that the service got; read after ``start``."""


def claim_port(host: str, port: int | None, default: int = 0) -> socket.socket:
    """Return a listening socket. ``port`` None: on ``default``, or when that is taken on a free port, which is logged.

    Raises ``SettingsError`` when an explicit port is taken, or the host is none of this machine's.
    """
    try:
        return _listen(host, default if port is None else port)
    except OSError as error:
        if port is not None or error.errno != errno.EADDRINUSE:
            raise SettingsError(_refusal(host, default if port is None else port, error)) from None
    free = _beside(host, default)
    log.warning("port %d is taken: listening on port %d", default, free.getsockname()[1])
    return free


def _beside(host: str, default: int) -> socket.socket:
    """Listen on another port, the same one each time while it is free, so that noted addresses stay right."""
    for step in _PORT_STEPS if default else ():
        with suppress(OSError):
            return _listen(host, default + step)
    return _listen(host, 0)


def address_of(sock: socket.socket, host: str) -> str:
    """Return the address of a socket as ``http://HOST:PORT``, for people to open."""
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(2048)  # at once: until then somebody else could bind the same port
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken: choose another with --port, or leave --port away for a free one"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"
