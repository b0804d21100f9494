"""The value that a tool has returned: a text for the model, and bytes that become files of the session.

Bytes never stand in the text: in their place it has a line that says where they are kept, of which type and how large.
"""

from collections.abc import Sequence
from typing import Any

from pentad.contracts.tools import Artifact
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.shared.clipping import clip, plain
from pentad.shared.data_urls import replaced_urls
from pentad.shared.immutable import immutable
from pentad.shared.plugins.errors import UnusableResult
from pentad.shared.plugins.results import result_text
from pentad.shared.workspace.artifact_paths import artifact_path, unique_name
from pentad.shared.workspace.media_types import told_type

MAX_ARTIFACTS = 16
"""Files that one call may make."""
MAX_ARTIFACT_BYTES = 32 << 20
"""Bytes of all files of one call together."""
MAX_RESULT = 16 << 20
"""Characters of a result."""
_LONGEST_CHARACTER = 4
"""Bytes of UTF-8."""
_MAX_NAME = 200
"""Characters of the name of a file that is not kept."""
_MAX_DEPTH = 32
"""Levels of lists and dicts in which bytes are looked for."""
_LINE_BYTES = 2_048
"""Bytes that are kept free for the line that says where the whole of a long text is."""


@immutable
class ToolValue:
    """The text of a result, and the files that its call has made."""

    text: str
    artifacts: tuple[Artifact, ...] = ()


def value_of(tool: str, value: Any, call: str | None) -> ToolValue:
    """Return what a tool has returned. ``call``: the id of the call whose files are kept; None: none are.

    A text over `RESULT_LIMIT` is cut just above it where it is not kept whole as a file. Raises ``UnusableResult``.
    """
    made = _Made(tool, call)
    text = result_text(tool, made.without_bytes(value, _MAX_DEPTH))
    if len(text) > MAX_RESULT:
        raise UnusableResult(
            f"tool {tool!r} returned {len(text):,} characters, the limit is {MAX_RESULT:,}: "
            "store it and return where it is"
        )
    if call is not None:
        text = replaced_urls(text, made.line_of_url)
        text = made.shortened(text, is_json=not isinstance(value, str | bytes))
    return ToolValue(clip(text, RESULT_LIMIT + _LONGEST_CHARACTER), tuple(made.artifacts))


def joined_value(tool: str, parts: Sequence[str | Artifact], call: str | None) -> ToolValue:
    """Return texts and files as one result, a line each; what is too much of them is told, and refuses nothing.

    ``call``: as for `value_of`.
    """
    made, lines, room = _Made(tool, call), list[str](), MAX_RESULT
    for part in parts:
        line = clip(part, room) if isinstance(part, str) else made.line_if_room(part)
        room -= len(line)
        lines.append(line)
    text = "\n".join(lines)
    if call is not None:
        text = made.shortened(replaced_urls(text, made.line_of_url), is_json=False)
    return ToolValue(clip(text, RESULT_LIMIT + _LONGEST_CHARACTER), tuple(made.artifacts))


class _Made:
    """The files of one call, as they are found in what its tool has returned."""

    def __init__(self, tool: str, call: str | None) -> None:
        self._tool, self._call = tool, call
        self._names: set[str] = set()
        self._room = MAX_ARTIFACT_BYTES
        self.artifacts: list[Artifact] = []

    def without_bytes(self, value: Any, deeper: int) -> Any:
        """Return a value with a line in the place of each artifact, and of bytes that are no text."""
        if isinstance(value, Artifact):
            return self._line(value)
        if self._call is not None and isinstance(value, bytes | bytearray | memoryview):
            return self._of_bytes(bytes(value))
        if not deeper or not isinstance(value, dict | list | tuple):
            return value
        if isinstance(value, dict):
            made = {name: self.without_bytes(each, deeper - 1) for name, each in value.items()}
            return made if any(made[name] is not each for name, each in value.items()) else value
        listed = [self.without_bytes(each, deeper - 1) for each in value]
        return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value

    def line_of_url(self, data: bytes, media_type: str) -> str | None:
        """Return the line for the bytes of a data URL; None where there is no room for another file."""
        return self._line(Artifact(data, "", media_type)) if self._has_room(data) else None

    def line_if_room(self, made: Artifact) -> str:
        """Return the line for a file, which says so where there is no room for it."""
        if self._has_room(made.data):
            return self._line(made)
        return f"[a file of {len(made.data):,} bytes, which is not kept: the call has made too many or too large ones]"

    def _has_room(self, data: bytes) -> bool:
        return len(self.artifacts) < MAX_ARTIFACTS and len(data) <= self._room

    def shortened(self, text: str, *, is_json: bool) -> str:
        """Return the beginning of a text that is too long for a result, which is kept whole as a file."""
        if len(text) <= (RESULT_LIMIT - _LINE_BYTES) // _LONGEST_CHARACTER:
            return text
        data = text.encode()
        if len(data) <= RESULT_LIMIT or not self._has_room(data):
            return text
        ending, kind = (".json", "application/json") if is_json else (".txt", "text/plain")
        line = self._line(Artifact(data, f"result{ending}", kind))
        return (
            f"{clip(text, RESULT_LIMIT - _LINE_BYTES)}\n{line}\n[That file has the whole result; file_read reads it.]"
        )

    def _of_bytes(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self._line(Artifact(data))

    def _line(self, made: Artifact) -> str:
        data = bytes(made.data)
        kind = told_type(made.media_type, data[:64], made.name)
        if self._call is None:
            named = f"the file {plain(made.name, _MAX_NAME)}" if made.name else "a file"
            return f"[{named} of {len(data):,} bytes, {kind}, which is not kept: set PENTAD_FILES]"
        self._room -= len(data)
        if len(self.artifacts) >= MAX_ARTIFACTS or self._room < 0:
            raise UnusableResult(
                f"tool {self._tool!r} returned more than {MAX_ARTIFACTS} files or {MAX_ARTIFACT_BYTES:,} bytes of "
                "files: return fewer, or write them elsewhere and return where they are"
            )
        name = unique_name(made.name, kind, self._names)
        self._names.add(name)
        self.artifacts.append(Artifact(data, name, kind))
        return f"[file {artifact_path(self._call, name)}: {kind}, {len(data):,} bytes]"
