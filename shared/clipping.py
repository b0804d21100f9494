"""Texts of others with a bound, and in a form that can be shown. Pure."""

import re

_UNSEEN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
"""Characters that do something to a terminal or a line instead of being seen."""


def clip(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, cut at a character; the text itself when it is no longer."""
    if 4 * len(text) <= limit:  # no character has more bytes
        return text
    raw = text.encode("utf-8", errors="replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", errors="ignore")


def plain(text: str, limit: int) -> str:
    """On one line, at most ``limit`` characters and a mark where it was cut; what cannot be seen as its code."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return _UNSEEN.sub(_code, " ".join(cut.split()))


def _code(found: "re.Match[str]") -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def visible(text: str) -> str:
    """The lines of a text as they are; what cannot be seen otherwise, as its code."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else _code(found), text)


def said_by(error: BaseException) -> str:
    """Return the text of an error, or a note where its ``__str__`` raises."""
    try:
        return str(error)
    except Exception as wrong:
        return f"(it cannot say what: its text raises {type(wrong).__name__})"
