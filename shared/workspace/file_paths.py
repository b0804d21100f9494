"""Paths of files in a workspace. Pure.

A path is relative, of names that are separated by ``/``. One that could be read in two ways is refused and never
repaired: what a model, a client and a file system understand by it is then the same.
"""

import unicodedata
from fnmatch import fnmatchcase

from pentad.shared.workspace.file_errors import FileRefusedError

MAX_PATH_BYTES = 1024
"""Bytes of UTF-8 that a path may have."""
MAX_NAME_BYTES = 200
"""Bytes of UTF-8 that one name in a path may have: file systems take 255."""
MAX_DEPTH = 16
"""Names that a path may have."""
MAX_GLOB_CHARS = 256
"""Characters that a glob may have."""
_JOINERS = "\u200c\u200d"
"""Format characters that scripts and emoji need."""
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"))
"""Unicode categories of characters that no name has: control, format and direction, half pairs, separators of lines."""


def read_path(text: str) -> str:
    """Return a path that is safe to use as it is. Raises ``FileRefusedError``, which says what is wrong with it."""
    if not text:
        raise FileRefusedError("the path of a file is empty: give one like notes/today.md")
    if len(text) > MAX_PATH_BYTES or len(text.encode(errors="replace")) > MAX_PATH_BYTES:
        raise FileRefusedError(f"a path has at most {MAX_PATH_BYTES} bytes")
    if text.startswith("/"):
        raise _refused(text, "it begins with /: paths are relative to the session's workspace")
    names = text.split("/")
    if len(names) > MAX_DEPTH:
        raise _refused(text, f"it has {len(names)} names, and at most {MAX_DEPTH} are allowed")
    for name in names:
        _check_name(text, name)
    return text


def _check_name(text: str, name: str) -> None:
    if name in ("", ".", ".."):
        raise _refused(text, "its names must not be empty, `.` or `..`")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise _refused(text, f"one of its names has more than {MAX_NAME_BYTES} bytes")
    if "\\" in name:
        raise _refused(text, "it has a backslash: separate names by /")
    if name != name.strip():
        raise _refused(text, "one of its names begins or ends with a space")
    if name.isascii() and name.isprintable():
        return
    if any(unicodedata.category(sign) in _UNSAFE and sign not in _JOINERS for sign in name):
        raise _refused(text, "it has a control, format or unassigned character")
    if "\ufffd" in name:
        raise _refused(text, "it is not UTF-8")
    if unicodedata.normalize("NFC", name) != name:
        raise _refused(text, "it is not in Unicode's composed form (NFC)")
    plain = unicodedata.normalize("NFKC", name)
    if plain in (".", "..") or "/" in plain or "\\" in plain:
        raise _refused(text, "it has a character that looks like `/`, `\\` or `..`")


def _refused(text: str, why: str) -> FileRefusedError:
    return FileRefusedError(f"{text[:100]!r} is no path of a file here: {why}")


def is_path(text: str) -> bool:
    """Whether `read_path` accepts this path."""
    try:
        read_path(text)
    except FileRefusedError:
        return False
    return True


def safe_name(text: str, otherwise: str) -> str:
    """Return the last name of a path that others wrote, with what no name may have replaced by ``_``."""
    last = unicodedata.normalize("NFKC", text.replace("\\", "/").rpartition("/")[2]).strip()[:MAX_NAME_BYTES]
    kept = "".join(sign if sign.isprintable() and sign not in "/\\" else "_" for sign in last)
    while len(kept.encode()) > MAX_NAME_BYTES - 20:  # room for a number and an ending
        kept = kept[:-1]
    return kept if kept.strip(". ") and is_path(kept) else otherwise


class Glob:
    """A pattern of paths: ``*`` and ``?`` within a name, ``[...]`` a set of characters, ``**`` any number of names.

    One without ``/`` is looked for in every folder. Raises ``FileRefusedError`` for one that is too long.
    """

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= MAX_GLOB_CHARS:
            raise FileRefusedError(f"a glob has 1 to {MAX_GLOB_CHARS} characters, like *.md or reports/**")
        parts = text.split("/")
        if len(parts) > MAX_DEPTH:
            raise FileRefusedError(f"a glob has at most {MAX_DEPTH} names")
        self._parts = parts if len(parts) > 1 else ["**", text]

    def matches(self, path: str) -> bool:
        """Whether this is the path of a file that is meant."""
        names = path.split("/")
        reached = {0}
        for part in self._parts:
            if part == "**":
                reached = set(range(min(reached), len(names) + 1)) if reached else set()
            else:
                reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], part)}
        return len(names) in reached
