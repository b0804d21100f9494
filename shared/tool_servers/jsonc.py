"""JSON as people write it into configuration files: with comments and loose commas. Pure."""

import re
from typing import Any

from pentad.contracts.plain_json import read_json

_NEXT = re.compile(r'"|//|/\*')
_STRING = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"')
_STRING_OR_LOOSE_COMMA = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|,(?=\s*+[\]}])')


def read_jsonc(text: str) -> Any:
    """Return what a text holds. Raises ``ValueError`` for one that is no JSON even without comments."""
    return read_json(_STRING_OR_LOOSE_COMMA.sub(_kept, without_comments(text.removeprefix("\ufeff"))))


def without_comments(text: str) -> str:
    """Return a text without ``//`` and ``/* */`` comments; line ends stay, so that errors name the right line."""
    parts: list[str] = []
    at = 0
    while (found := _NEXT.search(text, at)) is not None:
        begin = found.start()
        parts.append(text[at:begin])
        if found[0] == '"':
            string = _STRING.match(text, begin)
            if string is None:  # it does not end: the reader says so
                return "".join((*parts, text[begin:]))
            parts.append(string[0])
            at = string.end()
        elif found[0] == "//":
            at = _or_end(text.find("\n", begin), text)
        else:
            end = text.find("*/", begin + 2)
            if end < 0:
                raise ValueError("a comment /* does not end")
            parts.append(" " + "\n" * text.count("\n", begin, end))
            at = end + 2
    parts.append(text[at:])
    return "".join(parts)


def _or_end(place: int, text: str) -> int:
    return len(text) if place < 0 else place


def _kept(found: "re.Match[str]") -> str:
    return "" if found[0] == "," else found[0]
