"""The guard of outbound requests: which addresses a URL may lead to that a model or a web page has chosen.

Addresses inside (this machine, its network, its cloud's metadata) answer whoever asks from there, so that a page could
have them read or changed. The guard looks a name up once and returns the addresses that it has checked: whoever
connects to one of these, and to nothing else, cannot be led elsewhere by a name that changes its address meanwhile.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from pentad.shared.clipping import plain

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""A function that returns the addresses of a host, for connections to a port. Raises ``OSError``."""

_PORTS = {"http": 80, "https": 443}
_MAX_SHOWN = 100
"""Characters of a host that an error repeats."""
_NUMBER = re.compile("[0-9]+|0x[0-9a-f]*")
"""The last label of a host that some programs read as a number, and so the whole as an IPv4 address."""
_INSIDE_V4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "of a carrier's private network"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "of a cloud's own services"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_OUTSIDE_V6 = IPv6Network("2000::/3")
"""The part of IPv6 that is routed in the internet; all else is inside."""
_INSIDE_V6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "loopback"),
        ("::/128", "unspecified"),
        ("::ffff:0:0/96", "an IPv4 address in the form of IPv6"),
        ("::/96", "an IPv4 address in the form of IPv6"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "an IPv4 address in the form of IPv6"),
        ("3fff::/20", "for documentation"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as networks that have IPv6 alone spell them; such an address is inside where its IPv4 address is."""
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""Third quarters of IPv6 addresses whose last quarter is an IPv4 address."""


class OutboundError(Exception):
    """An outbound request has no answer. The text says why, and what to do."""


class LostAnswerError(OutboundError):
    """An outbound request may have been received, and its answer is not known."""


class RefusedAddressError(OutboundError):
    """A host leads inside, or is spelled so that programs read it differently."""


def kind_of_inside(address: IPv4Address | IPv6Address) -> str | None:
    """Return the kind of an address that is inside, None for one of the internet."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _INSIDE_V4 if address in network), None)
    if address.scope_id is not None:
        return "link-local"
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64:
        return kind_of_inside(last)
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP and (kind := kind_of_inside(last)) is not None:
        return kind
    found = next((kind for network, kind in _INSIDE_V6 if address in network), None)
    return found or (None if address in _OUTSIDE_V6 else "reserved")


class AddressGuard:
    """Checks hosts before a connection is made.

    ``allowed``: hosts, as ``HOST`` or ``HOST:PORT`` in small letters, that may lead inside. ``resolver``: looks names
    up; without one the system does, in threads of ``executor``.
    """

    def __init__(
        self, allowed: Sequence[str] = (), *, resolver: Resolver | None = None, executor: Executor | None = None
    ) -> None:
        self._allowed = frozenset(allowed)
        self._executor = executor
        self._resolver = resolver or self._look_up

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the checked addresses of a host, as the resolver orders them: connect to these alone.

        A name of which one address is inside is refused as a whole. Raises ``OutboundError``.
        """
        literal = self._literal(host, port)
        found = [str(literal)] if literal is not None else await self._addresses_of_name(host, port)
        for text in found:
            self._check(host, port, ip_address(text))
        return found

    def check_written(self, url: str) -> None:
        """Refuse an address of http or https that is inside as it is written; what a name leads to is not looked up.

        Raises ``RefusedAddressError``.
        """
        parts = urlsplit(url)
        try:
            port = parts.port or _PORTS[parts.scheme]
        except ValueError:
            raise RefusedAddressError("ports go from 1 to 65535") from None
        host = parts.hostname or ""
        literal = self._literal(host, port)
        if literal is not None:
            self._check(host, port, literal)

    def _literal(self, host: str, port: int) -> IPv4Address | IPv6Address | None:
        """Return the address that a host is, None for a name."""
        if not 0 < port < 65_536:
            raise RefusedAddressError(f"no server has the port {port}: ports go from 1 to 65535")
        return _literal(host)

    def _check(self, host: str, port: int, address: IPv4Address | IPv6Address) -> None:
        kind = kind_of_inside(address)
        if kind is not None and not self._is_allowed(host, port):
            raise RefusedAddressError(
                f"{plain(host, _MAX_SHOWN)} leads to an address that is {kind}, and only addresses of the public "
                "internet may be fetched; an operator can allow this host by PENTAD_WEB_ALLOW"
            )

    def _is_allowed(self, host: str, port: int) -> bool:
        name = host.lower().removesuffix(".")
        shown = f"[{name}]" if ":" in name else name
        return not self._allowed.isdisjoint((shown, f"{shown}:{port}"))

    async def _addresses_of_name(self, host: str, port: int) -> Sequence[str]:
        try:
            found = await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or "it is no name of a host"
            raise OutboundError(f"{plain(host, _MAX_SHOWN)} has no address: {said}") from None
        if not found:
            raise OutboundError(f"{plain(host, _MAX_SHOWN)} has no address")
        return found

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._executor, _system_addresses, host, port)
        return list(dict.fromkeys(found))


def _system_addresses(host: str, port: int) -> list[str]:
    return [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, None for a name.

    Raises ``RefusedAddressError`` for a number that is no IPv4 address of four decimal parts: the system would read
    ``2130706433``, ``0x7f.1`` and ``0177.0.0.1`` as one, another program would read another.
    """
    name = host.lower().removesuffix(".")
    try:
        return ip_address(name)
    except ValueError:
        pass
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise RefusedAddressError(
            f"{plain(host, _MAX_SHOWN)} is a number that can be read in several ways: write an IPv4 address as four "
            "decimal numbers, such as 192.0.2.1"
        )
    return None
