"""Which gateway a client talks to, and with which key; ``gateway.url``, in which a running system writes its address.

A data directory may lie in a folder that somebody else has made: a clone, a download. Keys are sent to the address, so
the file counts only where a system of this user's runs on the directory now, and on this machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from pentad.client.gateway import Address
from pentad.errors import ClientError, GatewayUnreachable
from pentad.shared.addresses import is_loopback
from pentad.shared.embedded.data_dir import LOCK
from pentad.shared.embedded.operator_key import OPERATOR_KEY
from pentad.shared.private_files import NotPrivateError, PrivateFolder
from pentad.shared.settings import Settings

_NAME = "gateway.url"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""Addresses to listen on that nobody can connect to by name, and where a client of this machine finds them."""


@dataclass(frozen=True, slots=True)
class WrittenAddress:
    """The content of ``gateway.url``, and whether it can be trusted."""

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


DEFAULT_URL = "http://127.0.0.1:8080"
_API_KEY, _ADMIN_KEY = "PENTAD_API_KEY", "PENTAD_ADMIN_KEY"


def address_for(url: str | None, settings: Settings, *, api_key: str | None = None) -> Address:
    """The gateway to talk to: ``url`` (``--url``), else ``PENTAD_URL``, else the one that runs on the data directory,
    else the default port of this machine. Raises ``ClientError`` for what is no address.

    Without ``PENTAD_DATA_DIR`` the nearest ``.pentad`` counts: of the working directory, or of a folder above it.
    ``api_key``: the program's own, in place of ``PENTAD_API_KEY``. It refuses to send a key of the environment or of
    the program to an address that only a file of the folder names.
    """
    own = settings.pentad_api_key.get_secret_value() if settings.pentad_api_key else None
    key = own if api_key is None else api_key
    if url:
        hint = "--url names it: start it with `make run` or give another"
        return with_admin_key(Address.parse(url, key, hint=hint, source="--url "), settings)
    if settings.pentad_url:
        _check_bound(settings, _API_KEY)
        if api_key is not None and settings.url_of_env_file:
            raise _unsent(settings, "an api_key is given")
        chosen = "PENTAD_URL names it: start it with `make run` or give --url"
        return with_admin_key(Address.parse(settings.pentad_url, key, hint=chosen, source="PENTAD_URL "), settings)
    for path, written in _written(settings):
        return _running(path, written, key, settings)
    return replace(Address.parse(DEFAULT_URL, key), admin_key=settings.admin_key)


def admin_address_for(url: str | None, settings: Settings) -> Address:
    """Return the address with the operator's key. Raises ``ClientError``."""
    hint = (
        "set PENTAD_ADMIN_KEY to the key that it was started with; a gateway that was given none has made one, in "
        "admin.key of its data directory, which commands read when they are started beside that"
    )
    address = address_for(url, settings)
    if not url and settings.pentad_url:
        _check_bound(settings, _ADMIN_KEY)
    return replace(address, api_key=address.admin_key, key_hint=hint)


def _written(settings: Settings) -> Iterator[tuple[Path, WrittenAddress]]:
    """The addresses that were written, the nearest first. Above the working directory only what is this user's."""
    if (written := written_in(settings.pentad_data_dir)) is not None:
        yield file_of(settings.pentad_data_dir), written
    if "pentad_data_dir" not in settings.model_fields_set:
        for folder in Path.cwd().parents:
            above = folder / settings.pentad_data_dir
            if (written := written_in(above)) is not None and written.foreign is None:
                yield file_of(above), written


def _running(path: Path, written: WrittenAddress, key: str | None, settings: Settings) -> Address:
    """The gateway of a system that runs. Raises ``ClientError`` when it has ended, or may be somebody else's."""
    if written.foreign is not None:
        raise ClientError(
            f"{path} {written.foreign}, so nothing is sent where it says: remove it, or name the gateway with --url or "
            "PENTAD_URL"
        )
    if written.gone:
        gone = f"{path} names it, but the system that wrote it is gone: start it again with `make run`"
        why = "nothing runs on its data directory"
        raise GatewayUnreachable(f"no gateway answers at {written.url} ({why}): {gone}, or give --url")
    hint = f"{path} names it: see whether its system is well, or give --url"
    return replace(Address.parse(written.url, key, hint=hint), admin_key=written.admin_key or settings.admin_key)


def with_admin_key(address: Address, settings: Settings) -> Address:
    """The address with the operator's key: the one that is set, else what the system there has made for itself."""
    if settings.admin_key is not None:
        return replace(address, admin_key=settings.admin_key)
    found = (written.admin_key for _, written in _written(settings) if written.url == address.url)
    return replace(address, admin_key=next(found, None))


def _check_bound(settings: Settings, secret: str) -> None:
    if secret in settings.withheld:
        raise _unsent(settings, f"{secret} is exported")


def _unsent(settings: Settings, what: str) -> ClientError:
    return ClientError(
        f"the gateway at {settings.pentad_url} is named by .env of this folder alone, and {what}: a key is not sent "
        "where a file says; give --url or export PENTAD_URL, or write the key for it into the same .env"
    )
