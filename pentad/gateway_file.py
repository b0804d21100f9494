"""``gateway.url`` in the data directory: a running system writes its address there, and client commands read it."""

from pathlib import Path
from urllib.parse import urlsplit

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses to listen on that nobody can connect to by name, and where a client of this machine finds them."""


def file_of(data_dir: Path) -> Path:
    """Where the address of the system on this data directory is written."""
    return data_dir / "gateway.url"


def reachable(url: str) -> str:
    """The address as a client on this machine can use it."""
    parts = urlsplit(url)
    host = _EVERYWHERE.get(parts.hostname or "")
    return f"{parts.scheme}://{host}:{parts.port}" if host else url
