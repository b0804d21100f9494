"""An open port on loopback is for this machine's own programs: not for pages of other sites, nor names bound to it."""

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from pentad.shared.settings import is_loopback

Headers = Iterable[tuple[bytes, bytes]]


def why_foreign(headers: Headers, origins: Collection[str] = ()) -> str | None:
    """Why a request comes from elsewhere although it reached us over loopback; None when it does not.

    ``origins``: of sites whose pages may talk to us all the same.
    """
    for name, value in headers:
        if name not in (b"host", b"origin"):
            continue
        text = value.decode("latin-1")
        if name == b"host" and not is_loopback(_host_in(f"//{text}")):
            return "this is open to this machine only: use http://127.0.0.1"
        if name == b"origin" and text not in origins and not is_loopback(_host_in(text)):
            return "pages of other sites may not talk to this"
    return None


def _host_in(url: str) -> str:
    """The host of a URL, '' when there is none, or more than a host: a user, a path, a blank within."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if url.endswith(f"//{parts.netloc}") and "@" not in url else ""
    except ValueError:
        return ""
