"""Which gateway a client talks to, and with which key."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pentad.gateway_file import file_of
from pentad.shared.settings import Settings
from pentad.transport import Address

DEFAULT_URL = "http://127.0.0.1:8080"
_MOST = 4096
"""Bytes of a file that holds an address."""


def address_for(url: str | None, settings: Settings) -> Address:
    """The gateway to talk to: ``url`` (``--url``), else ``PENTAD_URL``, else the one that runs on the data directory,
    else the default port of this machine. Raises ``ClientError`` for what is no address.

    Without ``PENTAD_DATA_DIR`` the nearest ``.pentad`` counts: of the working directory, or of a folder above it.
    """
    key = settings.pentad_api_key.get_secret_value() if settings.pentad_api_key else None
    if url:
        return Address.parse(url, key, hint="--url names it: start it with `make run` or give another", source="--url ")
    if settings.pentad_url:
        chosen = "PENTAD_URL names it: start it with `make run` or give --url"
        return Address.parse(settings.pentad_url, key, hint=chosen, source="PENTAD_URL ")
    for path in _files(settings):
        if written := _read(path):
            gone = f"{path} names it, but the system that wrote it is gone: start it again with `make run`"
            return Address.parse(written, key, hint=f"{gone}, or give --url")
    return Address.parse(DEFAULT_URL, key)


def admin_address_for(url: str | None, settings: Settings) -> Address:
    """The same, with the operator's key. Raises ``ClientError``."""
    hint = "set PENTAD_ADMIN_KEY to the key that it was started with"
    return replace(address_for(url, settings), api_key=settings.admin_key, key_hint=hint)


def _files(settings: Settings) -> Iterator[Path]:
    """Where an address may be written, the nearest first. Above, only what is this user's: the key goes there."""
    yield file_of(settings.pentad_data_dir)
    if "pentad_data_dir" not in settings.model_fields_set:
        above = (file_of(folder / settings.pentad_data_dir) for folder in Path.cwd().parents)
        yield from (path for path in above if _is_ours(path.parent) and _is_ours(path))


def _is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _read(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with path.open("rb") as file:
            return file.read(_MOST).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
