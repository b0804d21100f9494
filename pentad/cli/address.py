"""Which gateway client commands talk to, and with which key."""

from dataclasses import replace
from pathlib import Path

from pentad.client import DEFAULT_URL
from pentad.gateway_file import file_of
from pentad.shared.settings import Settings
from pentad.transport import Address


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
