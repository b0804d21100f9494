"""Reads ``.env`` files: variables that are not exported, one ``NAME=VALUE`` a line."""

import re
from pathlib import Path

from pentad.shared.errors import SettingsError

_MAX_FILE_BYTES = 64 * 1024
"""Bytes that a ``.env`` file may have."""
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_COMMENT = re.compile(r"(?:^|\s)#.*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of the file; none when there is no such file.

    Raises ``SettingsError`` that names the line, and never shows what stands in it: it may be a key.
    """
    if not path.is_file():
        return {}
    lines = _text(path).splitlines()
    numbered = ((number, line.strip()) for number, line in enumerate(lines, start=1))
    return dict(_variable(path, number, line) for number, line in numbered if line and not line.startswith("#"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}): mend it, or remove it") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8: write it as plain text") from None
    if len(raw) > _MAX_FILE_BYTES or "\0" in text:
        raise SettingsError(
            f"{path} is no file of variables: it holds up to {_MAX_FILE_BYTES} bytes of lines NAME=VALUE"
        )
    return text


def _variable(path: Path, number: int, line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise SettingsError(f"{path} line {number} is not NAME=VALUE: correct it, or begin it with #")
    name, value = found.groups()
    if value[:1] not in ("'", '"'):
        return name, _COMMENT.sub("", value).strip()
    quoted = (_SINGLE if value[0] == "'" else _DOUBLE).fullmatch(value)
    if quoted is None:
        raise SettingsError(f"{path} line {number}: the quotes around the value of {name} do not close")
    return name, quoted[1] if value[0] == "'" else re.sub(r"\\(.)", _unescaped, quoted[1])


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])
