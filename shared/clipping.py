"""Texts with a bound in bytes. Pure."""


def clip(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, cut at a character; the text itself when it is no longer."""
    if 4 * len(text) <= limit:  # no character has more bytes
        return text
    raw = text.encode("utf-8", errors="replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", errors="ignore")
