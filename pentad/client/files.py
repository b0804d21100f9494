"""``agent.files(session)``: the files of a session, listed, read, written and removed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from pentad.client.gateway import Rest
from pentad.errors import Conflict, Refused

_BLOCK = 4 << 20
"""Bytes that one request reads."""
_PARTIAL, _UNCHANGED, _NO_SUCH_RANGE = 206, 304, 416
_UPLOAD_S = 90.0
"""Seconds of silence after which an upload has failed."""


class SessionFile(BaseModel):
    """A file of a session."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    size: int
    media_type: str
    modified_at: str
    etag: str
    """Tag of this version, for ``if_match``."""


class SessionFiles:
    """The files of one session. All methods raise ``ClientError``."""

    def __init__(self, rest: Rest, session_id: str | None) -> None:
        self._rest, self._session = rest, session_id

    async def list(self, glob: str | None = None) -> AsyncGenerator[SessionFile, None]:
        """Iterate over the files, by path. ``glob``: only these, like ``*.csv`` or ``reports/**``."""
        async for found in self._rest.pages(self._address(), None, glob=glob):
            yield SessionFile.model_validate(found)

    async def get(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a file, or those from ``start`` up to ``end``.

        Raises ``NotFound``, and ``Conflict`` if the file changes meanwhile.
        """
        return b"".join([block async for block in self.blocks(path, start, end)])

    async def blocks(self, path: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Iterate over the bytes of a file in pieces of some MiB. Raises as ``get`` does."""
        at, etag = start, None
        while end is None or at < end:
            last = at + _BLOCK if end is None else min(at + _BLOCK, end)
            headers = {"Range": f"bytes={at}-{last - 1}"} | ({"If-Range": etag} if etag else {})
            answer = await self._rest.request("GET", self._address(path), headers=headers)
            if answer.status_code == _NO_SUCH_RANGE:
                return
            self._rest.check(answer)
            if answer.status_code != _PARTIAL:
                raise Conflict(f"the file {path!r} has changed while it was read: read it again")
            etag, at = answer.headers.get("etag"), at + len(answer.content)
            yield answer.content
            if at >= int(answer.headers["content-range"].rpartition("/")[2]):
                return

    async def put(
        self, path: str, content: bytes | Path, *, if_match: str | None = None, new: bool = False
    ) -> SessionFile:
        """Write a file, from bytes or from a file of this machine.

        ``if_match``: the ``etag`` of the version that it replaces. ``new``: only if there is none yet. Raises
        ``Refused`` if that is not so, and for a file that is too large.
        """
        headers = {"Content-Type": "application/octet-stream"}
        headers |= {"If-Match": if_match} if if_match else {}
        headers |= {"If-None-Match": "*"} if new else {}
        body: bytes | AsyncIterator[bytes] = b""
        if isinstance(content, bytes):
            body = content
        else:
            headers["Content-Length"] = str((await asyncio.to_thread(content.stat)).st_size)
            body = _read(content)
        address = self._address(path)
        answer = await self._rest.request("PUT", address, content=body, headers=headers, timeout_s=_UPLOAD_S)
        self._rest.check(answer)
        return SessionFile.model_validate(answer.json())

    async def remove(self, path: str, *, if_match: str | None = None) -> None:
        """Remove a file; with ``if_match`` that version alone."""
        headers = {"If-Match": if_match} if if_match else {}
        self._rest.check(await self._rest.request("DELETE", self._address(path), headers=headers))

    def _address(self, path: str | None = None) -> str:
        if self._session is None:
            raise Refused('name the session: agent.files("..."), or agent.session("...").files()')
        address = f"/v1/sessions/{quote(self._session, safe='')}/files"
        if path is None:
            return address
        if any(name in ("", ".", "..") for name in path.split("/")):
            raise Refused(f"{path[:200]!r} is no path of a file: names separated by /, none empty, `.` or `..`")
        return f"{address}/{quote(path, safe='/')}"


async def _read(file: Path) -> AsyncIterator[bytes]:
    opened: Any = await asyncio.to_thread(file.open, "rb")
    try:
        while block := await asyncio.to_thread(opened.read, _BLOCK):
            yield block
    finally:
        opened.close()
