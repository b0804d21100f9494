"""Where secrets are kept: one small file each, ``TENANT/USER/NAME`` or ``TENANT/NAME``, in a folder or a bucket.

An operator can put them there, as a mounted secret of a cluster; or the gateway does. With a key they are encrypted,
and each is bound to its place: a file that somebody moves elsewhere cannot be read there.
"""

import asyncio
import base64
import binascii
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_bytes
from typing import Any, Self, TypeVar

from pentad.contracts.ids import decoded_id, encoded_id, is_external_id, is_identifier
from pentad.contracts.tool_servers import SECRET_NAME
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.private_files import make_folder, replace_file
from pentad.shared.settings import Settings, parse_secret_keys
from pentad.shared.storage_url import StorageUrl, is_local

MAX_SECRET_BYTES = 16_384
_MAX_FILE_BYTES = 2 * MAX_SECRET_BYTES + 1_024
_NONCE_BYTES = 12
_SEALED = b"pentad-secret:1:"
"""Begins a file that is encrypted. Its place is sealed with it."""
_NAME = re.compile(SECRET_NAME)
T = TypeVar("T")


class SecretUnreadableError(OutageError):
    """A secret is there and cannot be read: no key opens it. The text says whose, never what."""


class SecretNameTakenError(ValueError):
    """A secret of a tenant cannot have the name of one of its users. The text says what to do."""


@immutable
class SecretOwner:
    """The owner of secrets: a user, or a whole tenant."""

    tenant: str
    user: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the owner's secrets. Raises ``ValueError`` for names of no ids."""
        if not is_identifier(self.tenant) or (self.user is not None and not is_external_id(self.user)):
            raise ValueError("a secret belongs to a tenant, or to a user of one")
        return self.tenant if self.user is None else f"{self.tenant}/{encoded_id(self.user)}"


def is_secret_name(name: str) -> bool:
    """Return whether a secret may have this name."""
    return _NAME.fullmatch(name) is not None


class SecretKeys:
    """Encrypts with the first of several keys, and opens with any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Raises ``SettingsError`` where the package that encrypts is not installed."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError:
            raise SettingsError("PENTAD_SECRET_KEY needs a package: pip install 'pentad[mcp]'") from None
        self._ciphers = [AESGCM(key) for key in keys]

    def seal(self, value: bytes, place: str) -> bytes:
        """Return a value encrypted, bound to its place."""
        nonce = token_bytes(_NONCE_BYTES)
        return _SEALED + base64.b64encode(nonce + self._ciphers[0].encrypt(nonce, value, place.encode()))

    def open(self, sealed: bytes, place: str) -> bytes | None:
        """Return the value that was sealed for this place; None when no key opens it."""
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.b64decode(sealed.removeprefix(_SEALED).strip(), validate=True)
        except binascii.Error:
            return None
        for cipher in self._ciphers:
            with suppress(InvalidTag, ValueError):
                return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], place.encode())
        return None

    def __repr__(self) -> str:
        return f"SecretKeys({len(self._ciphers)} keys)"


class SecretStore:
    """Reads and writes secrets. Raises ``OutageError`` when the place does not answer."""

    def __init__(self, url: str, keys: SecretKeys | None = None) -> None:
        """Raises ``SettingsError`` for a kind of store that is not known."""
        self._storage, self._keys = StorageUrl("PENTAD_SECRETS", url), keys

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return the store of a process's settings; None where there is none. Raises ``SettingsError``."""
        keys = settings.pentad_secret_key
        made = None if keys is None else SecretKeys(parse_secret_keys(keys.get_secret_value()))
        return None if settings.pentad_secrets is None else cls(settings.pentad_secrets, made)

    @property
    def keys(self) -> SecretKeys | None:
        """The keys that encrypt; None where secrets are kept as they are."""
        return self._keys

    async def read(self, owner: SecretOwner, name: str) -> str | None:
        """Return a secret; None when the owner has none of this name.

        Raises ``OutageError``, and ``SecretUnreadableError`` for one that no key opens.
        """
        place = _place(owner, name)
        raw = await self._try(lambda fs, root: _load(fs, f"{root}/{place}"))
        if raw is None:
            return None
        if raw.startswith(_SEALED):
            opened = None if self._keys is None else self._keys.open(raw, place)
            if opened is None:
                raise SecretUnreadableError(
                    f"the secret {name} is encrypted, and no key of PENTAD_SECRET_KEY opens it here"
                )
            raw = opened
        try:
            return raw.decode().strip("\r\n")
        except UnicodeDecodeError:
            raise SecretUnreadableError(f"the secret {name} is no text") from None

    async def has(self, owner: SecretOwner, name: str) -> bool:
        """Return whether an owner has a secret of this name. No key is needed. Raises ``OutageError``."""
        place = _place(owner, name)
        return await self._try(lambda fs, root: bool(fs.isfile(f"{root}/{place}")))

    async def write(self, owner: SecretOwner, name: str, value: str) -> None:
        """Keep a secret, in the place of one that is there. Raises ``ValueError``, and ``OutageError``."""
        place, raw = _place(owner, name), value.encode()
        if not 0 < len(raw) <= MAX_SECRET_BYTES:
            raise ValueError(f"a secret has 1 to {MAX_SECRET_BYTES} bytes")
        data = raw if self._keys is None else self._keys.seal(raw, place)
        await self._try(lambda fs, root: _keep(fs, f"{root}/{place}", data))

    async def remove(self, owner: SecretOwner, name: str) -> bool:
        """Remove a secret; returns whether there was one. Raises ``OutageError``."""
        place = _place(owner, name)
        return await self._try(lambda fs, root: _remove(fs, f"{root}/{place}"))

    async def remove_all(self, owner: SecretOwner, until_ms: int) -> None:
        """Remove all secrets of an owner that were kept by this time. Raises ``OutageError``."""
        await self._try(lambda fs, root: _remove_all(fs, f"{root}/{owner.folder}", until_ms))

    async def owners(self) -> Sequence[SecretOwner]:
        """Return who has secrets, tenants before their users, in the order of their names. Raises ``OutageError``."""
        return await self._try(_owners)

    async def _try(self, work: Callable[[Any, str], T]) -> T:
        try:
            return await asyncio.to_thread(lambda: work(*self._storage.open()))
        except (OutageError, SecretNameTakenError):
            raise
        except Exception as error:  # of whatever store it is; the text of some names the whole address
            raise OutageError(f"the store of PENTAD_SECRETS is unavailable: {type(error).__name__}") from None

    def __repr__(self) -> str:
        return "SecretStore()"


def _place(owner: SecretOwner, name: str) -> str:
    """Return the path of a secret. Raises ``ValueError`` for what is no name: it could name a file anywhere."""
    if not is_secret_name(name):
        raise ValueError(
            "the name of a secret has 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit"
        )
    return f"{owner.folder}/{name}"


def _load(fs: Any, path: str) -> bytes | None:
    try:
        if not is_local(fs):
            return bytes(fs.cat_file(path, start=0, end=_MAX_FILE_BYTES))
        with open(path, "rb") as file:
            return file.read(_MAX_FILE_BYTES)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def _keep(fs: Any, path: str, data: bytes) -> None:
    if not is_local(fs):
        fs.pipe_file(path, data)
        return
    folder = os.path.dirname(path)
    if os.path.isdir(path) or os.path.isfile(folder):
        raise SecretNameTakenError("the tenant has a user and a secret of this name: give the secret another name")
    make_folder(folder)
    replace_file(path, data)


def _remove(fs: Any, path: str) -> bool:
    try:
        fs.rm_file(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    return True


def _remove_all(fs: Any, folder: str, until_ms: int) -> None:
    for name in _names(fs, folder):
        path = f"{folder}/{name}"
        with suppress(FileNotFoundError):
            if fs.isfile(path) and _kept_at(fs, path) <= until_ms:
                _remove(fs, path)
    if is_local(fs):
        with suppress(OSError):  # something newer is there
            os.rmdir(folder)


def _kept_at(fs: Any, path: str) -> float:
    """Return when a file was written, in ms; 0 where the store does not say."""
    try:
        return float(fs.modified(path).timestamp() * 1000)
    except (NotImplementedError, AttributeError):
        return 0.0


def _owners(fs: Any, root: str) -> list[SecretOwner]:
    found: list[SecretOwner] = []
    for tenant in sorted(filter(is_identifier, _names(fs, root))):
        found.append(SecretOwner(tenant))
        for name in sorted(_names(fs, f"{root}/{tenant}")):
            with suppress(ValueError):
                found.append(SecretOwner(tenant, decoded_id(name)))
    return found


def _names(fs: Any, folder: str) -> list[str]:
    """Return the names in a folder; none when it is not there."""
    fs.invalidate_cache(folder)  # others write too
    try:
        return [str(path).rstrip("/").rpartition("/")[2] for path in fs.ls(folder, detail=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
