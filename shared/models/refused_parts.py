"""Reads what a server says of one part of a request: of a message, or of the texts that are to be embedded.

Some endpoints take no list of texts, others only a short one; `too_long` tells that one text is too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pentad.shared.models.refusal import CANNOT, NO, WANTS_TEXT, Path, ServerRefusal, as_number, said_by
from pentad.shared.models.request_change import Change

CALL_IDS = (Change("call_ids", value="short"), Change("call_ids", value="numbered"))
"""The changes to both forms of call ids that a server may want."""
_THOUGHTS = said_by(r"[`'\"](?:redacted_)?thinking[`'\"] (?:found|block|or|content)", r"[`'\"]signature[`'\"]")
_THOUGHTS_MISSING = said_by(r"expected [`'\"]?(?:redacted_)?thinking\b")
_TEXTS = r"(?:inputs?|texts?|instances?|items|elements|documents|sentences|strings|entries)\b"
_TOO_MANY_TEXTS = (
    said_by(
        r"(?<!physical )batch[ _-]?size(?! \(current)",
        rf"too many {_TEXTS}",
        rf"(?:number|count|length) of (?:the )?(?:input )?{_TEXTS}",
        rf"(?:at most|maximum(?: of)?|up to|more than|exceeds?(?: the limit of)?|limit of) [\d,]+ (?:\w+ )?{_TEXTS}",
    ),
    said_by(
        r"\b(?:array|list)(?: is| should have| must have| should not| must not)? (?:too long|at most|maximum|exceed)",
        r"(?:array|list) (?:length|size)",
        r"requests (?:can be |are |allowed )?in (?:one|a|each) batch",
        r"maximum item count|too many items|too_many_inputs",
        r"batch (?:is |was )?too (?:large|big|long)",
        r"\d (?:instance|input|text)(?:s|\(s\))? (?:is|are) allowed",
        r"数组",
    ),
)
"""Words of servers that refuse a request with more texts than they take at once."""
_NO_LIST = (
    said_by(
        rf"\b(?:batch(?:ed|es|ing)?|arrays?|lists?|multiple|several)(?: (?:of )?(?:inputs?|texts?|items?|strings?))?"
        rf"(?: is| are)? {NO}",
    ),
    said_by(rf"{CANNOT} support[^.\n]{{0,16}} (?:batch(?:ed|es|ing)?|arrays?|lists?|multiple)\b"),
    said_by(
        r"only (?:supports? |accepts? )?(?:one|a single|single|1) (?:input|text|string|item|instance)\b",
        r"only (?:one|a single|single|1) (?:input|text|string|item|instance) (?:is|per)",
    ),
)
"""Words of servers that take a text and no list of texts."""


def changes_of_texts(refusal: ServerRefusal, count: int) -> Iterator[Change]:
    """Yield the changes for an endpoint of vectors that takes no list of texts, or only a short one."""
    words = refusal.words
    if _finds(_NO_LIST, words) or WANTS_TEXT.search(words):
        yield Change("text_alone")
    if count > 1 and _finds(_TOO_MANY_TEXTS, words):
        allowed = [number for number in map(as_number, re.findall(r"\d[\d,]*", words)) if number and number < count]
        if allowed:
            yield Change("fewer_texts", value=max(allowed))
        yield Change("fewer_texts", value=count // 2)


def speaks_of_texts(words: str) -> bool:
    """Whether words that come with the status of an outage refuse a list of texts."""
    return _finds((*_NO_LIST, WANTS_TEXT, *_TOO_MANY_TEXTS), words)


def _finds(patterns: Iterable[re.Pattern[str]], words: str) -> bool:
    return any(pattern.search(words) for pattern in patterns)


def changes_of_message(words: str, path: Path) -> Iterator[Change]:
    """Yield the changes that may help where a path leads to a message, or into one. ``words`` is the whole refusal."""
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
    """Whether one of Anthropic's blocks is refused because it holds thoughts, or because another server signed it."""
    return "content" in path and bool(_THOUGHTS.search(words)) and not _THOUGHTS_MISSING.search(words)
