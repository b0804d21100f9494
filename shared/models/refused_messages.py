"""What the words of servers about one message of a conversation mean for the next request. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pentad.shared.models.refusal import WANTS_TEXT, Path, said_by
from pentad.shared.models.request_change import Change

CALL_IDS = (Change("call_ids", value="short"), Change("call_ids", value="numbered"))
"""Both forms of the ids of tool calls that a server may want."""
_THOUGHTS = said_by(r"[`'\"](?:redacted_)?thinking[`'\"] (?:found|block|or|content)", r"[`'\"]signature[`'\"]")
_THOUGHTS_MISSING = said_by(r"expected [`'\"]?(?:redacted_)?thinking\b")


def changes_of_message(words: str, path: Path) -> Iterator[Change]:
    """What may help where a path leads to a message, or into one. ``words``: all that the server says."""
    last = path[-1]
    if last == "role" and re.search(r"system|developer", words, re.I):
        yield Change("no_system")
    if last in ("content", "text", "parts") or "content" in path:
        if WANTS_TEXT.search(words):
            yield Change("plain_text")
        if re.search(r"null|none|str(?:ing)?\b|required|missing|type", words, re.I):
            yield Change("no_null")
        if re.search(r"empty|blank|at least|whitespace|length|min", words, re.I):
            yield Change("no_empty_text")
    if (
        last.startswith(("reasoning", "thinking"))
        or last in ("extra_content", "signature")
        or _of_thoughts(path, words)
    ):
        yield Change("no_reasoning")
    if "tool_call_id" in path or ("tool_calls" in path and last == "id"):
        yield from CALL_IDS
    if last in ("role", "tool_calls", "tool_call_id") and re.search(r"\btool", words, re.I):
        yield Change("calls_as_text")


def _of_thoughts(path: Path, words: str) -> bool:
    """Whether a block of Anthropic's is refused because it is one of thoughts, or signed by another server."""
    return "content" in path and bool(_THOUGHTS.search(words)) and not _THOUGHTS_MISSING.search(words)
