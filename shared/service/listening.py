"""The address a service listens on: its defaults, and the claim to a port before anything heavy is imported."""

import errno
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from pentad.contracts.streams import SERVICES, Service
from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

_STEPS = (100, 200, 300)
"""How far from a default port that is taken others are tried, before any that is free."""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORTS: Mapping[Service, int] = MappingProxyType(
    dict(zip(SERVICES, (8080, 9101, 9102, 9103, 9104, 9105), strict=True))
)


@runtime_checkable
class Listening(Protocol):
    """A service that opens a port of its own in ``start``."""

    address: str
    """``http://HOST:PORT``, with the port that it really got; read after ``start``."""


def claim_port(host: str, port: int | None, default: int = 0) -> socket.socket:
    """A listening socket. ``port`` None: ``default``, or any free port, logged, when that is taken.

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
    """The same other port each time, as long as that is free: addresses that were written down stay right."""
    for step in _STEPS if default else ():
        with suppress(OSError):
            return _listen(host, default + step)
    return _listen(host, 0)


def address_of(sock: socket.socket, host: str) -> str:
    """``http://HOST:PORT`` for people to open."""
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
