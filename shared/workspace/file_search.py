"""Search in the text files of a workspace, in bounded time: patterns run in linear time, without looking back."""

import time
from collections.abc import Callable, Iterator
from typing import Literal

from pentad.shared.immutable import immutable
from pentad.shared.json_schema import WrongSchema, compile_pattern
from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError
from pentad.shared.workspace.file_paths import Glob
from pentad.shared.workspace.file_store import FileStore, Place
from pentad.shared.workspace.text_pages import check_text, iterate_lines

MAX_QUERY_CHARS = 500
"""Characters of what is searched for."""
MAX_HITS = 200
"""Lines that a search shows at most."""
_MAX_SHOWN_CHARS = 300
"""Characters of a line that are shown."""
_MAX_LINE_BYTES = 4_096
"""Bytes of a line in which is searched."""
_MAX_BYTES = 256 << 20
"""Bytes of all files in which is searched."""
_MAX_S = 8.0
"""Seconds that a search takes."""
_LINES_PER_LOOK = 64
"""Lines between two looks at the clock."""

Finds = Callable[[str], bool]


@immutable
class SearchRequest:
    """A search: its query, and where it looks."""

    query: str
    kind: Literal["words", "pattern"] = "words"
    """``words``: lines that have each of the words, in any case; ``pattern``: lines that a regular expression
    matches."""
    glob: str | None = None
    """Files that are searched; None: all."""
    most_hits: int = MAX_HITS
    most_bytes: int = 16_384
    """Bytes of the answer."""


def search_files(store: FileStore, place: Place, request: SearchRequest) -> str:
    """Return the lines that are found as ``PATH:LINE: TEXT``, and what was left out.

    Raises ``FileRefusedError`` for a query that cannot be used.
    """
    finds = _finds(request)
    files = store.listing(place).files
    if request.glob is not None:
        glob = Glob(request.glob)
        files = tuple(file for file in files if glob.matches(file.path))
    found: list[str] = []
    room, searched, others, ends = request.most_bytes, 0, 0, _Ends()
    for number, file in enumerate(files):
        if ends.over:
            return _told(found, f"time or size is over: {len(files) - number} files were not searched")
        try:
            for line in _hits(store, place, file.path, finds, ends):
                room -= len(line.encode()) + 1
                if len(found) >= min(request.most_hits, MAX_HITS) or room < 0:
                    return _told(found, "there are more: narrow the query, or give a `glob`")
                found.append(line)
        except FileMissingError:
            continue  # removed meanwhile
        except FileRefusedError:
            others += 1
            continue
        searched += 1
    without = f", {others} that are no text were left out" if others else ""
    return _told(
        found, f"{len(found)} lines in {searched} files{without}{'; time or size is over' if ends.over else ''}"
    )


class _Ends:
    """The bounds of a search."""

    def __init__(self) -> None:
        self._until, self._left = time.monotonic() + _MAX_S, _MAX_BYTES

    def read(self, size: int) -> None:
        self._left -= size

    @property
    def over(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._until


def _finds(request: SearchRequest) -> Finds:
    query = request.query
    if not 0 < len(query) <= MAX_QUERY_CHARS or not query.strip():
        raise FileRefusedError(f"a query has 1 to {MAX_QUERY_CHARS} characters")
    if request.kind == "pattern":
        try:
            return compile_pattern(query)
        except WrongSchema as error:
            raise FileRefusedError(f"{error}; there is no lookaround and no back reference") from None
    words = query.casefold().split()
    return lambda line: all(word in line for word in words) if (line := line.casefold()) else False


def _hits(store: FileStore, place: Place, path: str, finds: Finds, ends: _Ends) -> Iterator[str]:
    file = store.open(place, path)
    try:
        check_text(file)
        ends.read(file.info.size)
        for number, (line, _) in enumerate(iterate_lines(file, _MAX_BYTES, _MAX_LINE_BYTES), start=1):
            text = line.decode(errors="replace").rstrip("\r")
            if finds(text):
                yield f"{path}:{number}: {_shown(text)}"
            if number % _LINES_PER_LOOK == 0 and ends.over:
                return
    finally:
        file.close()


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]} ..."


def _told(found: list[str], note: str) -> str:
    return "\n".join([*found, f"[{note}.]"])
