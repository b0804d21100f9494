"""``gateway.url`` in the data directory: ``pentad up`` writes its address there, and the client commands read it."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pentad.client import DEFAULT_URL
from pentad.shared.settings import Settings
from pentad.transport import Address

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses to listen on that nobody can connect to by name, and where a client of this machine finds them."""


def file_of(data_dir: Path) -> Path:
    """Where the address of the system on this data directory is written."""
    return data_dir / "gateway.url"


def address_for(url: str | None, settings: Settings) -> Address:
    """The gateway to talk to: ``url`` (``--url``), else ``PENTAD_URL``, else the one that runs on the data directory,
    else the default port of this machine. Raises ``ClientError`` for what is no address.
    """
    key = settings.pentad_api_key.get_secret_value() if settings.pentad_api_key else None
    if url:
        return Address.parse(url, key, hint="--url names it: start it with `make run` or give another", source="--url ")
    if settings.pentad_url:
        chosen = "PENTAD_URL names it: start it with `make run` or give --url"
        return Address.parse(settings.pentad_url, key, hint=chosen, source="PENTAD_URL ")
    path = file_of(settings.pentad_data_dir)
    if written := _read(path):
        gone = f"{path} names it, but the system that wrote it is gone: start it again with `make run`, or give --url"
        return Address.parse(written, key, hint=gone)
    return Address.parse(DEFAULT_URL, key)


def admin_address_for(url: str | None, settings: Settings) -> Address:
    """The same, with the operator's key. Raises ``ClientError``."""
    hint = "set PENTAD_ADMIN_KEY to the key that it was started with"
    return replace(address_for(url, settings), api_key=settings.admin_key, key_hint=hint)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def reachable(url: str) -> str:
    """The address as a client on this machine can use it."""
    parts = urlsplit(url)
    host = _EVERYWHERE.get(parts.hostname or "")
    return f"{parts.scheme}://{host}:{parts.port}" if host else url
