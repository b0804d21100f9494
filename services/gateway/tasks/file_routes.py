"""The routes of a session's files: list, read, write, remove."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import answer, limit_of, session_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import FILE, LIST, gives, page, path, path_of_file, query
from pentad.services.gateway.tasks.file_answers import FileStream, answer_with_file, quoted, shown, tags_in
from pentad.shared.workspace.file_errors import (
    FileChangedError,
    FileMissingError,
    FileRefusedError,
    FileTooLargeError,
    WorkspaceFullError,
)
from pentad.shared.workspace.file_paths import MAX_PATH_BYTES
from pentad.shared.workspace.file_store import FileInfo
from pentad.shared.workspace.workspace import NOT_SET, Expected, Upload, Workspace, Workspaces

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PIECE = 1 << 20
"""Bytes of an upload that are written at a time."""
_OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_STATUSES: tuple[tuple[type[FileRefusedError], int], ...] = (
    (FileMissingError, HTTPStatus.NOT_FOUND),
    (FileChangedError, HTTPStatus.PRECONDITION_FAILED),
    (FileTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (WorkspaceFullError, HTTPStatus.CONFLICT),
)
"""The statuses of refusals; all others are wrong values."""


class FileRoutes:
    """Routes of the files of the caller's sessions. Without ``workspaces`` they say what to set."""

    def __init__(self, workspaces: Workspaces | None, shards: int) -> None:
        self._workspaces, self._shards = workspaces, shards

    @operation(
        "GET",
        "/v1/sessions/{session}/files",
        "The files of a session, by path; a session without any has an empty list",
        path("session"),
        *LIST,
        query("glob", "string", "only these: `*.csv` in every folder, or `reports/**`"),
        problems=(400, 404, 422),
        right="read",
        _200=gives("", page(FILE)),
    )
    async def list_files(self, request: "Request") -> "Response":
        """Return a page of the files of a session."""
        limit, after, glob = limit_of(request), request.query_params.get("cursor"), request.query_params.get("glob")
        if after is not None and len(after) > MAX_PATH_BYTES:
            raise invalid("the cursor must be the `next` of an earlier page")
        with_more = await self._listed(request, glob, after)
        items = [shown(info) for info in with_more[:limit]]
        return answer({"items": items, "next": with_more[limit - 1].path if len(with_more) > limit else None})

    async def _listed(self, request: "Request", glob: str | None, after: str | None) -> list[FileInfo]:
        async with self._workspace(request) as workspace:
            files = await workspace.list(glob)
        return [info for info in files if after is None or info.path > after]

    @operation(
        "GET",
        "/v1/sessions/{session}/files/{path:path}",
        "The bytes of a file, or a range of them. Always as a download: no browser shows it as a page",
        path("session"),
        path_of_file(),
        problems=(400, 404, 416, 422),
        right="read",
        _200=gives("all of it") | {"content": _OCTETS},
        _206=gives("the range of `Range`") | {"content": _OCTETS},
        _304=gives("the version of `If-None-Match`"),
    )
    async def get_file(self, request: "Request") -> FileStream:
        """Return the bytes of a file."""
        async with self._workspace(request) as workspace:
            reading = await workspace.open(request.path_params["path"])
        return answer_with_file(request, reading)

    @operation(
        "PUT",
        "/v1/sessions/{session}/files/{path:path}",
        "Write a file, from the bytes of the body. `If-Match` with a tag replaces that version alone, "
        "`If-None-Match: *` makes a new file alone",
        path("session"),
        path_of_file(),
        body={"required": True, "content": _OCTETS},
        problems=(400, 404, 409, 412, 413, 415, 422),
        right="send",
        _200=gives("written", FILE),
    )
    async def put_file(self, request: "Request") -> "Response":
        """Write a file from the body."""
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a file is sent as it is, without Content-Encoding")
        expected = _expected(request)
        async with self._workspace(request) as workspace:
            upload = await workspace.upload(request.path_params["path"])
            try:
                await _receive(request, upload)
                info = await upload.commit(expected)
            finally:
                await upload.abort()
        response = answer(shown(info))
        response.headers["etag"] = quoted(info.etag)
        return response

    @operation(
        "DELETE",
        "/v1/sessions/{session}/files/{path:path}",
        "Remove a file; with `If-Match`, that version alone",
        path("session"),
        path_of_file(),
        problems=(400, 404, 412, 422),
        right="send",
        _204=gives("removed"),
    )
    async def remove_file(self, request: "Request") -> "Response":
        """Remove a file."""
        from starlette.responses import Response

        async with self._workspace(request) as workspace:
            await workspace.remove(request.path_params["path"], _expected(request))
        return Response(None, 204)

    @asynccontextmanager
    async def _workspace(self, request: "Request") -> AsyncIterator[Workspace]:
        """The workspace of the session in the path; refusals within the block become problems."""
        keys = session_of(request, self._shards)
        if self._workspaces is None:
            raise missing(NOT_SET)
        try:
            yield self._workspaces.open(keys.tenant, keys.session)
        except FileRefusedError as error:
            raise problem_of_file(error) from None


def problem_of_file(error: FileRefusedError) -> ProblemError:
    """Return the refusal of what a workspace has refused."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    return invalid(str(error)) if status is None else ProblemError(status, str(error))


def _expected(request: "Request") -> Expected:
    """Return what the request expects of the file that is there. Raises ``ProblemError`` (422)."""
    tags, none = tags_in(request.headers.get("if-match")), tags_in(request.headers.get("if-none-match"))
    if none is not None and none != ["*"]:
        raise invalid("`If-None-Match` may be `*` here: a new file alone")
    if tags is None:
        return Expected(absent=none is not None)
    if len(tags) != 1:
        raise invalid("`If-Match` must have one tag, as `etag` of the file has it, or be `*`")
    return Expected(present=True) if tags == ["*"] else Expected(etag=tags[0])


async def _receive(request: "Request", upload: Upload) -> None:
    """Write the body piece by piece. Raises ``FileTooLargeError`` as soon as it is."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit():
        upload.check_size(int(declared[:20]))
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= _PIECE:
            await upload.write(bytes(waiting))
            waiting.clear()
    await upload.write(bytes(waiting))
