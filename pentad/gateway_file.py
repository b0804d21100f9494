"""``gateway.url`` in the data directory: a running system writes its address there, and client commands read it.

A data directory may lie in a folder that somebody else has made: a clone, a download. Keys are sent to the address, so
it counts only where a system of this user's runs on the directory now, and on this machine.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pentad.shared.addresses import is_loopback
from pentad.shared.embedded.data_dir import LOCK
from pentad.shared.embedded.operator_key import OPERATOR_KEY
from pentad.shared.private_files import NotPrivateError, PrivateFolder

_NAME = "gateway.url"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses to listen on that nobody can connect to by name, and where a client of this machine finds them."""


@dataclass(frozen=True, slots=True)
class WrittenAddress:
    """What ``gateway.url`` says."""

    url: str
    """Empty when it is not even read."""
    admin_key: str | None = field(default=None, repr=False)
    """The operator's key that the system has made for itself."""
    foreign: str | None = None
    """Why it may be somebody else's; None when it is this user's."""
    gone: bool = False
    """Whether the system that wrote it has ended."""


def file_of(data_dir: Path) -> Path:
    """Where the address of the system on this data directory is written."""
    return data_dir / _NAME


def written_in(data_dir: Path) -> WrittenAddress | None:
    """The address in a data directory; None when there is none."""
    if not file_of(data_dir).exists() and not file_of(data_dir).is_symlink():
        return None
    try:
        with PrivateFolder(data_dir) as folder:
            if not (url := folder.read(_NAME)):
                return None
            alive = folder.is_locked(LOCK)
            key = folder.read(OPERATOR_KEY) or None
    except NotPrivateError as error:
        return WrittenAddress("", foreign=str(error))
    except OSError:
        return None
    if not _is_here(url):
        return WrittenAddress(url, foreign="does not name an address of this machine (127.0.0.1)")
    return WrittenAddress(url, key) if alive else WrittenAddress(url, gone=True)


def _is_here(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and "@" not in parts.netloc and is_loopback(parts.hostname or "")
    except ValueError:
        return False


def reachable(url: str) -> str:
    """The address as a client on this machine can use it."""
    parts = urlsplit(url)
    host = _EVERYWHERE.get(parts.hostname or "")
    return f"{parts.scheme}://{host}:{parts.port}" if host else url
