"""The store of scripts: JSON documents under an fsspec URL (a folder, S3, GCS), each version a file of its own.

`TENANT/HOLDER/NAME/TIME-DIGEST.json`: a version is written once and never changed, and the one with the last time
counts. So writers need no lock, also where a store has none.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner
from pentad.shared.private_files import make_folder, replace_file
from pentad.shared.scripts.stored_script import (
    MAX_SCRIPT_BYTES,
    MAX_SCRIPTS,
    MAX_VERSIONS,
    ScriptRefusedError,
    ScriptVersion,
    StoredScript,
    digest_of,
    holder_folder,
    is_script_name,
    version_of_file,
)
from pentad.shared.storage_url import StorageUrl, is_local

T = TypeVar("T")
_MAX_FILE_BYTES = 8 * MAX_SCRIPT_BYTES
"""Bytes of a file that are read: JSON may need six for one of the code."""
_MAX_LISTINGS = 3
"""How often a list of versions is read again, because another writer has just removed what it named."""


@immutable
class KeptScript:
    """A script with its version."""

    script: StoredScript
    version: ScriptVersion


class ScriptStore:
    """Keeps scripts of users, sessions and tenants. Nothing is opened before the first use.

    Every method raises ``OutageError`` while the store does not answer. Raises ``SettingsError`` for a kind of store
    that is not known.
    """

    def __init__(self, url: str) -> None:
        self._storage = StorageUrl("PENTAD_SCRIPTS", url)

    async def save(self, owner: Owner, script: StoredScript, now_ms: int) -> ScriptVersion:
        """Keep a version of a script; what is the last version already is kept once.

        Raises ``ScriptRefusedError`` when the owner keeps too many scripts.
        """
        return await self._try(lambda fs, root: _save(fs, f"{root}/{_place(owner)}", script, now_ms))

    async def take_back(self, owner: Owner, name: str, version: ScriptVersion) -> None:
        """Remove one version of a script; a missing one is no error."""
        await self._try(lambda fs, root: _remove_file(fs, f"{root}/{_place(owner)}/{name}", version))

    async def listed(self, owner: Owner) -> list[KeptScript]:
        """Return the last version of each script, by name; what nobody can read is left out."""
        return await self._try(lambda fs, root: _listed(fs, f"{root}/{_place(owner)}"))

    async def read(self, owner: Owner, name: str, digest: str | None = None) -> KeptScript | None:
        """Return a script, or None: its last version, or the last with this digest.

        Raises ``DamagedError`` when nobody can read it.
        """
        if not is_script_name(name):
            return None
        return await self._try(lambda fs, root: _read(fs, f"{root}/{_place(owner)}/{name}", name, digest))

    async def versions(self, owner: Owner, name: str) -> list[ScriptVersion]:
        """Return the versions of a script, the last first."""
        if not is_script_name(name):
            return []
        return await self._try(lambda fs, root: _versions(fs, f"{root}/{_place(owner)}/{name}"))

    async def remove_all(self, owner: Owner, until_ms: int) -> None:
        """Remove all scripts of an owner that were saved by this time."""
        await self._try(lambda fs, root: _remove_all(fs, f"{root}/{_place(owner)}", until_ms))

    async def _try(self, work: Callable[[Any, str], T]) -> T:
        try:
            return await asyncio.to_thread(lambda: work(*self._storage.open()))
        except (ScriptRefusedError, DamagedError):
            raise
        except Exception as error:
            raise OutageError(f"the store of scripts {self._storage.url} is unavailable: {error}") from error


def _place(owner: Owner) -> str:
    return f"{owner.tenant}/{holder_folder(owner)}"


def _names(fs: Any, folder: str) -> list[str]:
    fs.invalidate_cache(folder)  # others write too
    try:
        return [str(path).rstrip("/").rpartition("/")[2] for path in fs.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def _versions(fs: Any, folder: str) -> list[ScriptVersion]:
    found = (version_of_file(name) for name in _names(fs, folder))
    return sorted((each for each in found if each is not None), key=lambda each: each.file, reverse=True)


def _save(fs: Any, place: str, script: StoredScript, now_ms: int) -> ScriptVersion:
    folder, digest = f"{place}/{script.name}", digest_of(script.code)
    there = _versions(fs, folder)
    if there and there[0].digest == digest and _same(fs, folder, there[0], script):
        return there[0]
    if not there and len(_scripts(fs, place)) >= MAX_SCRIPTS:
        raise ScriptRefusedError(
            f"{MAX_SCRIPTS} scripts are kept here already, and no more can be: save this one under the name of one "
            "that is not needed any more"
        )
    saved = ScriptVersion(max([now_ms, *(each.saved_at + 1 for each in there[:1])]), digest)
    _write(fs, folder, saved.file, script.model_dump_json().encode())
    for old in there[MAX_VERSIONS - 1 :]:
        _remove_file(fs, folder, old)
    return saved


def _same(fs: Any, folder: str, version: ScriptVersion, script: StoredScript) -> bool:
    try:
        return _load(fs, folder, script.name, version) == script
    except (FileNotFoundError, DamagedError):
        return False


def _scripts(fs: Any, place: str) -> list[str]:
    """Return the names of scripts that have a version; an empty folder is left where one was removed."""
    return sorted(name for name in _names(fs, place) if is_script_name(name) and _versions(fs, f"{place}/{name}"))


def _write(fs: Any, folder: str, name: str, data: bytes) -> None:
    path = f"{folder}/{name}"
    if not is_local(fs):
        fs.pipe_file(path, data)
        return
    make_folder(folder)
    replace_file(path, data)


def _listed(fs: Any, place: str) -> list[KeptScript]:
    found = []
    for name in _scripts(fs, place)[:MAX_SCRIPTS]:
        with contextlib.suppress(DamagedError):
            if (kept := _read(fs, f"{place}/{name}", name, None)) is not None:
                found.append(kept)
    return found


def _read(fs: Any, folder: str, name: str, digest: str | None) -> KeptScript | None:
    for _ in range(_MAX_LISTINGS):
        wanted = [each for each in _versions(fs, folder) if digest is None or each.digest.startswith(digest)]
        if not wanted:
            return None
        with contextlib.suppress(FileNotFoundError):
            return KeptScript(_load(fs, folder, name, wanted[0]), wanted[0])
    return None


def _load(fs: Any, folder: str, name: str, version: ScriptVersion) -> StoredScript:
    data = bytes(fs.cat_file(f"{folder}/{version.file}", start=0, end=_MAX_FILE_BYTES))
    try:
        script = StoredScript.model_validate_json(data)
    except ValidationError as error:
        newer = any(each["loc"] == ("version",) for each in error.errors())
        why = "a newer version of Pentad wrote it" if newer else "it is damaged"
        raise DamagedError(f"the script {name!r} cannot be read: {why}") from None
    if script.name != name or digest_of(script.code) != version.digest:
        raise DamagedError(f"the script {name!r} cannot be read: its file holds another one")
    return script


def _remove_file(fs: Any, folder: str, version: ScriptVersion) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(f"{folder}/{version.file}")


def _remove_all(fs: Any, place: str, until_ms: int) -> None:
    for name in _names(fs, place):
        folder = f"{place}/{name}"
        for version in _versions(fs, folder):
            if version.saved_at <= until_ms:
                _remove_file(fs, folder, version)
        if is_local(fs):
            with contextlib.suppress(OSError):  # something newer is there
                os.rmdir(folder)
