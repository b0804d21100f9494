"""Addresses of servers as people write them, over HTTP and of Redis. Pure."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl, urlsplit

_HTTP_SCHEMES = ("http", "https")
_HTTP_FORM = (
    "must be http://HOST:PORT/PATH; in a user name or password write / ? # @ : and % as %2F %3F %23 %40 %3A and %25"
)


def read_http_url(url: str) -> SplitResult:
    """Split an HTTP address. The ``ValueError`` for an invalid one does not repeat it: it may hold a password.

    A password with ``/``, ``?`` or ``#`` in it ends the host too early, so that its rest would be shown as a path.
    """
    try:
        parts = urlsplit(url)
        wrong = not parts.hostname or parts.port == 0 or parts.fragment
    except ValueError:
        raise ValueError(_HTTP_FORM) from None
    if parts.scheme not in _HTTP_SCHEMES:
        raise ValueError("must be an address that starts with http:// or https://")
    if wrong or "@" in parts.path + parts.query:
        raise ValueError(_HTTP_FORM)
    return parts


def shown_place(url: str) -> str:
    """Return the part of an address that may be shown: scheme, host, port and path. The rest can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can only be reached from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_REDIS_SCHEMES = ("redis", "rediss", "unix")
_REDIS_FORM = "must be redis://USER:PASSWORD@HOST:PORT/DB; in a password write / ? # and % as %2F %3F %23 and %25"
_TEXT, _YES_OR_NO = ".+", "true|false|yes|no|1|0"
_OPTIONS = {
    "db": "[0-9]+",
    "username": _TEXT,
    "password": _TEXT,
    "client_name": "[!-~]+",
    "protocol": "2",
    "socket_connect_timeout": "[0-9.]+",
    "ssl_ca_certs": _TEXT,
    "ssl_ca_path": _TEXT,
    "ssl_certfile": _TEXT,
    "ssl_keyfile": _TEXT,
    "ssl_password": _TEXT,
    "ssl_cert_reqs": "required|optional|none",
    "ssl_check_hostname": _YES_OR_NO,
    "ssl_ciphers": _TEXT,
}
"""Options that may follow the question mark. Others change how replies are read, or what is sent again."""
_NAME = re.compile("[a-z_]{1,40}")
_TLS = "ssl_"
_FILES = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")


def check_redis_url(url: str) -> None:
    """Raise ``ValueError`` for an address that no Redis can have. It does not repeat it: it may hold a password."""
    try:
        parts = urlsplit(url)
        wrong = parts.port == 0 or parts.fragment
    except ValueError:
        raise ValueError(_REDIS_FORM) from None
    if parts.scheme not in _REDIS_SCHEMES:
        raise ValueError("must start with redis://, rediss:// or unix://, e.g. redis://127.0.0.1:6379")
    if wrong:
        raise ValueError(_REDIS_FORM)
    if parts.scheme != "unix" and not re.fullmatch("[0-9]*", parts.path.strip("/")):
        raise ValueError("what follows HOST:PORT/ must be the number of a database")
    if parts.scheme != "unix" and "@" in parts.query and "@" not in parts.netloc:
        raise ValueError(_REDIS_FORM)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        _check_option(name, text, parts.scheme)


def _check_option(name: str, text: str, scheme: str) -> None:
    wanted = _OPTIONS.get(name)
    if wanted is None:
        named = name if _NAME.fullmatch(name) else "of another name"
        raise ValueError(f"it has an option {named}, and can have {', '.join(_OPTIONS)}")
    if not re.fullmatch(wanted, text, re.IGNORECASE):
        raise ValueError(f"its option {name} must be {'set' if wanted == _TEXT else wanted}")
    if name.startswith(_TLS) and scheme != "rediss":
        raise ValueError(f"its option {name} is for TLS: rediss:// instead of {scheme}://")


def redis_files(url: str) -> dict[str, str]:
    """Return the files and folders that an address of Redis names, by option."""
    return {name: path for name, path in parse_qsl(urlsplit(url).query) if name in _FILES}
