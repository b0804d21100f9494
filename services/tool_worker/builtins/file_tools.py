"""Tools for the files of a session: read, write, list and search. Whose files they are comes from the task."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from pentad.contracts.tools import Effect
from pentad.services.tool_worker.call_files import CallFiles
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.file_paths import MAX_GLOB_CHARS, MAX_PATH_BYTES
from pentad.shared.workspace.file_search import MAX_HITS, MAX_QUERY_CHARS, SearchRequest
from pentad.shared.workspace.file_store import FileInfo
from pentad.shared.workspace.media_types import media_type_by_name
from pentad.shared.workspace.workspace import Expected, Workspace

_TIMEOUT_S = 30.0
_NOTE = 512
"""Bytes that are kept free for where a page stands in its file."""
_MAX_LISTED = 200
MAX_CONTENT_CHARS = 1_048_576
"""Characters that one call writes."""

_Path = Annotated[str, Field(min_length=1, max_length=MAX_PATH_BYTES)]
_Glob = Annotated[str | None, Field(max_length=MAX_GLOB_CHARS)]
_Content = Annotated[str | None, Field(max_length=MAX_CONTENT_CHARS)]
Mode = Literal["overwrite", "create", "append", "replace"]


def file_tools(files: CallFiles, most_bytes: int) -> dict[str, ToolDefinition]:
    """Make the tools by name. ``most_bytes``: of a result that prompts hold."""
    room = most_bytes - _NOTE

    async def file_read(
        context: ToolContext,
        path: _Path,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000,
    ) -> str:
        """Reads lines of a text file of this conversation, and says how many there are.

        Args:
            path: Of the file, as `file_list` gives it, e.g. "notes/today.md".
            offset: The line to begin with; the first is 1.
            limit: How many lines at most; fewer may come at once.
        """
        return str(await files.of(context).page(path, offset, limit, room))

    async def file_list(context: ToolContext, glob: _Glob = None) -> str:
        """Lists the files of this conversation: those that the user gave, those that you wrote, and what tools have
        made.

        Args:
            glob: Which ones, e.g. "*.csv" (in every folder) or "reports/**"; without it all.
        """
        return _listed(await files.of(context).list(glob or None), room)

    async def file_search(
        context: ToolContext,
        query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)],
        kind: Literal["words", "pattern"] = "words",
        glob: _Glob = None,
        limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = 50,
    ) -> str:
        """Searches the text files of this conversation line by line; gives each line as "path:line: text".

        Args:
            query: Words that a line must all have, in any case; or a regular expression (without lookaround).
            kind: "words" or "pattern", for a regular expression.
            glob: Which files, e.g. "*.py"; without it all.
            limit: How many lines at most.
        """
        request = SearchRequest(query, kind, glob or None, limit, room)
        return await files.of(context).search(request)

    async def file_write(
        context: ToolContext,
        path: _Path,
        mode: Mode = "overwrite",
        content: _Content = None,
        old: _Content = None,
        new: _Content = None,
    ) -> str:
        """Writes a text file of this conversation; or changes one text in it, with mode "replace", `old` and `new`.

        Args:
            path: Of the file, e.g. "reports/summary.md". Folders are made as they are needed.
            mode: "overwrite" (or make) the whole file, "create" a new one only, "append" at its end, "replace" a text.
            content: What is written, in all modes but "replace".
            old: With mode "replace": a text that stands in the file exactly once.
            new: With mode "replace": what takes its place.
        """
        key = context.idempotency_key or None

        async def change(workspace: Workspace) -> str:
            if mode == "replace":
                if not old or new is None or content is not None:
                    raise FileRefusedError("mode 'replace' takes `old` and `new`, and no `content`")
                return await workspace.replace(path, old, new, call=key)
            if content is None or old is not None or new is not None:
                raise FileRefusedError(f"mode {mode!r} takes `content`, and no `old` and `new`")
            data = content.encode(errors="replace")
            if mode == "append":
                return await workspace.append(path, data, call=key)
            told = f"Wrote {len(data):,} bytes to {path}."
            return await workspace.write(path, data, Expected(absent=mode == "create"), call=key, told=told)

        return await files.change(context, path, change)

    reading = {
        tool.__name__: define(tool, effect=Effect.PURE, timeout=_TIMEOUT_S)
        for tool in (file_read, file_list, file_search)
    }
    return reading | {file_write.__name__: define(file_write, effect=Effect.IDEMPOTENT, timeout=_TIMEOUT_S)}


def _listed(files: list[FileInfo], room: int) -> str:
    lines: list[str] = []
    for file in files:
        at = datetime.fromtimestamp(file.modified / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = f"{file.path}  {file.size:,} bytes  {media_type_by_name(file.path)}  {at}"
        room -= len(line.encode()) + 1
        if len(lines) >= _MAX_LISTED or room < 0:
            break
        lines.append(line)
    if not files:
        return "There are no such files."
    rest = len(files) - len(lines)
    return "\n".join([*lines, f"[{len(files)} files{f'; {rest} more: give a `glob`' if rest else ''}.]"])
