"""An open port on loopback is for this machine's own programs: not for pages of other sites, nor names bound to it."""

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from pentad.shared.addresses import is_loopback

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
"""How an address ends that names the port which its scheme means anyway."""
Headers = Iterable[tuple[bytes, bytes]]


def why_foreign(headers: Headers, origins: Collection[str] = ()) -> str | None:
    """Why a request comes from elsewhere although it reached us over loopback; None when it does not.

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
