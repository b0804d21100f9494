"""Files of sessions as resources of MCP: addresses, lists, and bounded reading."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pydantic_core import from_json, to_json

from pentad.contracts.ids import is_external_id
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.http import caller_of, scope_of
from pentad.services.gateway.edge.pages import BadPageError, parse_page
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.immutable import immutable
from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError
from pentad.shared.workspace.file_store import FileInfo
from pentad.shared.workspace.media_types import media_type_by_name
from pentad.shared.workspace.workspace import NOT_SET, Workspaces

if TYPE_CHECKING:
    from starlette.requests import Request

TEMPLATE = "pentad-files://sessions/{session_id}/{+path}"
"""Template of the addresses of files."""
MAX_RESOURCE = 1 << 20
"""Bytes of a file that is read as a resource."""
_PAGE_FILES, _PAGE_SESSIONS = 100, 20
"""Files of a page at most, and sessions that are looked at for one."""
_MAX_ADDRESS = 8_192
_ADDRESS = re.compile(r"pentad-files://sessions/([^/]{1,800})/(.{1,6000})", re.DOTALL)
_TEXTS = ("text/", "application/json", "application/yaml", "application/toml", "application/jsonl", "application/xml")
"""Beginnings of media types that are sent as text."""


@immutable
class ListedFile:
    """A file in a list of resources."""

    session: str
    info: FileInfo

    @property
    def uri(self) -> str:
        """Address of the file."""
        return f"pentad-files://sessions/{quote(self.session, safe='')}/{quote(self.info.path)}"

    @property
    def media_type(self) -> str:
        """Media type that the file's name means."""
        return media_type_by_name(self.info.path)


@immutable
class ReadFile:
    """The content of a file."""

    media_type: str
    data: bytes

    def text(self) -> str | None:
        """Return the content as text; None for bytes that are none."""
        if not self.media_type.startswith(_TEXTS):
            return None
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


class FileResources:
    """Lists and reads files of the caller's sessions. ``workspaces`` None: there are none here.

    Methods raise ``ProblemError``, ``UnreadableError`` and ``OutageError``.
    """

    def __init__(self, workspaces: Workspaces | None, queries: Queries) -> None:
        self._workspaces, self._queries = workspaces, queries

    async def page(self, request: "Request", cursor: str | None) -> tuple[list[ListedFile], str | None]:
        """Return files, those of the session with the newest message first, and the cursor of the next page."""
        caller_of(request).check("read")
        (tenant, only), (sessions_at, session, path) = scope_of(request), _read_cursor(cursor)
        if self._workspaces is None:
            return [], None
        found: list[ListedFile] = []
        names, following = await self._sessions(tenant, only, sessions_at)
        if session in names:
            names = names[names.index(session) :]
        for name in names:
            after = path if name == session else ""
            files = [file for file in await self._files(tenant, name) if file.path > after]
            found += [ListedFile(name, file) for file in files[: _PAGE_FILES - len(found)]]
            if len(found) == _PAGE_FILES:
                return found, _written_cursor(sessions_at, found[-1].session, found[-1].info.path)
        return found, None if following is None else _written_cursor(following, "", "")

    async def _sessions(self, tenant: str, only: str | None, at: str) -> tuple[list[str], str | None]:
        if only is not None:
            return [only], None
        try:
            page = await self._queries.sessions(tenant, _PAGE_SESSIONS, parse_page(at or None))
        except BadPageError as error:
            raise invalid(str(error)) from None
        return [str(item["session_id"]) for item in page.items], page.next

    async def _files(self, tenant: str, session: str) -> Sequence[FileInfo]:
        assert self._workspaces is not None
        return await self._workspaces.open(tenant, session).list()

    async def read(self, request: "Request", uri: str) -> ReadFile:
        """Return the content of a file, at most `MAX_RESOURCE` bytes."""
        caller = caller_of(request)
        caller.check("read")
        session, path = _read_address(uri)
        (tenant, _) = scope_of(request)
        if caller.grant is not None:
            caller.grant.check_session(session)
        if self._workspaces is None:
            raise missing(NOT_SET)
        try:
            data = await self._workspaces.open(tenant, session).read(path, MAX_RESOURCE)
        except FileMissingError as error:
            raise missing(str(error)) from None
        except FileRefusedError as error:
            raise missing(f"{error}. GET /v1/sessions/{{session}}/files/{{path}} reads files of any size") from None
        return ReadFile(media_type_by_name(path), data)


def _read_address(uri: str) -> tuple[str, str]:
    """Return session and path of an address. Raises ``UnreadableError``."""
    found = _ADDRESS.fullmatch(uri) if len(uri) <= _MAX_ADDRESS else None
    session = unquote(found[1]) if found else ""
    if found is None or not is_external_id(session):
        raise UnreadableError(f"uri: an address of the form {TEMPLATE} is expected")
    return session, unquote(found[2])


def _written_cursor(sessions_at: str, session: str, path: str) -> str:
    return to_json([sessions_at, session, path]).decode()


def _read_cursor(cursor: str | None) -> tuple[str, str, str]:
    """Return the cursor of the sessions, and the session and path of the last file. Raises ``UnreadableError``."""
    if cursor is None:
        return "", "", ""
    try:
        read: Any = from_json(cursor) if len(cursor) <= _MAX_ADDRESS else None
    except ValueError:
        read = None
    if not isinstance(read, list) or len(read) != 3 or not all(isinstance(part, str) for part in read):
        raise UnreadableError("cursor: the nextCursor of an earlier page is expected")
    return read[0], read[1], read[2]
