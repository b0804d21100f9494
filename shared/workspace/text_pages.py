"""Reading lines of text files, however long the files are, in bounded memory."""

import codecs
from collections.abc import Iterator

from pentad.shared.data_urls import media_type_of
from pentad.shared.immutable import immutable
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.file_store import OpenFile
from pentad.shared.workspace.media_types import OCTETS, media_type_by_name

_BLOCK = 1 << 20
_LOOKED_AT = 8192
"""Bytes of a file's beginning that tell whether it is text."""
MAX_READ_BYTES = 256 << 20
"""Bytes of a file that are read to find lines and to count them."""
MAX_LINE_CHARS = 4_000
"""Characters of a line that are shown."""


@immutable
class TextPage:
    """Lines of a text file."""

    lines: tuple[str, ...]
    first: int
    """Number of the first line, from 1."""
    total: int
    """Lines of the whole file, or of as much of it as was read."""
    whole: bool
    """Whether the file was read to its end."""
    size: int

    def __str__(self) -> str:
        """The lines, and where they stand in the file."""
        last, more = self.first + len(self.lines) - 1, "" if self.whole else "at least "
        where = f"{more}{self.total} ({self.size:,} bytes)"
        if not self.lines:
            return f"[There is no line {self.first}: the file has {where}.]" if self.total else "[The file is empty.]"
        rest = f"go on with offset {last + 1}" if last < self.total or not self.whole else "this is the end"
        return "\n".join([*self.lines, f"[Lines {self.first} to {last} of {where}; {rest}.]"])


def read_page(file: OpenFile, offset: int, limit: int, most_bytes: int) -> TextPage:
    """Return at most ``limit`` lines from line ``offset`` on, of at most ``most_bytes`` together.

    Raises ``FileRefusedError`` for a file that is no text, which says what it is.
    """
    check_text(file)
    lines, room, number = list[str](), most_bytes, 0
    open_page = True
    for line, cut in iterate_lines(file, MAX_READ_BYTES, 4 * MAX_LINE_CHARS):
        number += 1
        if number < offset or not open_page:
            continue
        shown = _shown(line, cut)
        room -= len(shown.encode()) + 1
        if len(lines) >= limit or (room < 0 and lines):
            open_page = False
            continue
        lines.append(shown)
    return TextPage(tuple(lines), offset, number, file.info.size <= MAX_READ_BYTES, file.info.size)


def check_text(file: OpenFile) -> None:
    """Raise ``FileRefusedError`` for a file that is no text in UTF-8, with what it is and how to get it."""
    head = file.read(0, _LOOKED_AT)
    if is_text(head):
        return
    kind = media_type_of(head)
    kind = media_type_by_name(file.info.path) if kind == OCTETS else kind
    raise FileRefusedError(
        f"{file.info.path!r} is no text in UTF-8 but {kind}, {file.info.size:,} bytes: it cannot be read here. A "
        "person gets it by GET /v1/sessions/SESSION/files/PATH or `pentad files SESSION get PATH`"
    )


def is_text(head: bytes) -> bool:
    """Whether the beginning of a file is text in UTF-8; its last character may be cut."""
    if b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _shown(line: bytes, cut: int) -> str:
    text = line.decode(errors="replace").removesuffix("\r").removeprefix("\ufeff")
    if len(text) > MAX_LINE_CHARS or cut:
        return f"{text[:MAX_LINE_CHARS]} [cut: the line has {len(line) + cut:,} bytes]"
    return text


def iterate_lines(file: OpenFile, most: int, longest: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line, at most ``longest`` bytes of it, with the number of its bytes that are left out."""
    kept, left_out, at, ended = bytearray(), 0, 0, True
    while at < most and (block := file.read(at, min(_BLOCK, most - at))):
        at += len(block)
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            room = longest - len(kept)
            kept += block[start : min(end, start + room)]
            yield bytes(kept), left_out + max(0, end - start - room)
            kept.clear()
            left_out, start = 0, end + 1
        room = longest - len(kept)
        kept += block[start : start + room]
        left_out += max(0, len(block) - start - room)
        ended = block.endswith(b"\n")
    if not ended:
        yield bytes(kept), left_out
