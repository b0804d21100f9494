"""The address of a server over HTTP as people write it. Pure."""

from urllib.parse import SplitResult, urlsplit

_KINDS = ("http", "https")
_FORM = "must be http://HOST:PORT/PATH; in a user name or password write / ? # @ : and % as %2F %3F %23 %40 %3A and %25"


def read_http_url(url: str) -> SplitResult:
    """Split an HTTP address. The ``ValueError`` for an invalid one does not repeat it: it may hold a password.

    A password with ``/``, ``?`` or ``#`` in it ends the host too early, so that its rest would be shown as a path.
    """
    try:
        parts = urlsplit(url)
        wrong = not parts.hostname or parts.port == 0 or parts.fragment
    except ValueError:
        raise ValueError(_FORM) from None
    if parts.scheme not in _KINDS:
        raise ValueError("must be an address that starts with http:// or https://")
    if wrong or "@" in parts.path + parts.query:
        raise ValueError(_FORM)
    return parts


def shown_place(url: str) -> str:
    """Scheme, host, port and path: what may be shown. User names and queries can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
