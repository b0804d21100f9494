"""The one table of refusals from which something is learned: what a server's words mean for the next request. Pure.

Each reader takes a refusal and the request that was refused, and yields the changes of that request that may help,
the best first. The caller takes the first change that alters the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pentad.shared.immutable import immutable
from pentad.shared.models.refusal import (
    CANNOT,
    NO,
    WANTS_TEXT,
    Path,
    ServerRefusal,
    as_number,
    names_of,
    place_of,
    said_by,
)
from pentad.shared.models.refused_parts import CALL_IDS, changes_of_message, changes_of_texts, speaks_of_texts
from pentad.shared.models.request_change import Change
from pentad.shared.models.thoughts import REASONING
from pentad.shared.models.too_long import room_left, says_too_long
from pentad.shared.models.tool_forms import BARE, CORE, KEYWORDS, MAX_DESCRIPTION, WITHOUT_BOUNDS

Changes = tuple[Change, ...]


@immutable
class RefusedRequest:
    """The request that was refused. ``fields`` are those of its body, ready JSON by their names."""

    fields: Mapping[str, bytes]
    required: frozenset[str]
    """Fields that are never left out."""
    tools: tuple[str, ...] = ()
    """The names of the tools that were offered, in their order."""
    unusual_tools: tuple[str, ...] = ()
    """The names of those tools whose schemas have more than names and types."""
    once: frozenset[str] = frozenset()
    """Fields whose value was lowered for this request already."""
    texts: int = 0
    """Number of texts for which vectors are wanted; 0 for a request of a chat model."""


_TOOLS = (
    r"(?<![\w.-])(?<!parallel )(?:tools?(?:[ _-](?:use|usage|calls?|calling))?|function[ _-]?call(?:s|ing)?|functions)"
)
_FORMAT = r"(?:response[ _-]?format|json[ _-](?:mode|schema|object)|structured[ _-]?outputs?)"
_STREAM = r"\bstream(?:ing|ed)?\b"
_REFUSED_STATUSES = frozenset({400, 406, 409, 415, 422, 424})
"""Statuses of requests that a server refuses for what they say."""


_TABLE: Sequence[tuple[re.Pattern[str], Changes]] = (
    (
        said_by(
            r"roles? must alternate",
            r"roles? (?:should|must|need to) be alternat",
            r"alternating (?:user|roles)",
            r"consecutive (?:\w+ )?(?:user )?messages",
        ),
        (Change("alternate"),),
    ),
    (
        said_by(
            rf"(?:system|developer)['\"`]?(?: role| message| prompt| instruction)s?[^.\n]{{0,40}} {NO}",
            rf"{CANNOT} support[^.\n]{{0,24}}['\"`]?(?:system|developer)['\"`]?(?: |\.|$)",
            r"only[^.\n]{0,20} user[^.\n]{0,20}(?:assistant|model)[^.\n]{0,20} roles? (?:are|is) supported",
        ),
        (Change("no_system"),),
    ),
    (
        said_by(
            r"failed to (?:parse|initialize|convert|compile)[^.\n]{0,40} grammar",
            r"json schema conversion failed",
            r"(?:invalid|unsupported) grammar",
            rf"grammar (?:error|is not valid|is {NO})",
        ),
        (
            Change("loosen_tools", value=WITHOUT_BOUNDS),
            Change("loosen_tools", value=CORE),
            Change("json_object"),
            Change("omit", "response_format"),
            Change("loosen_tools", value=BARE),
        ),
    ),
    (
        said_by(
            rf"{NO}[^.\n]{{0,20}}{_STREAM}",
            rf"{_STREAM}[^.\n]{{0,40}} {NO}",
            rf"{CANNOT} (?:\w+ )?support[^.\n]{{0,30}} {_STREAM}",
            r"verified to stream this model",
        ),
        (Change("omit", "stream"),),
    ),
    (
        said_by(
            r"\b(?:tool|function)[ _-]?(?:call|use|result)s?[ _-]?id",
            r"\bcall[ _-]?ids?\b",
            r"\btool_calls?\W[^\n]{0,24}\bid\b",
            r"functions\.[\w{<$]{1,64}[}>]?:",
        ),
        CALL_IDS,
    ),
    (said_by(r"only supports? (?:a )?single tool[- ]calls?"), (Change("calls_as_text"),)),
    (
        said_by(
            rf"{CANNOT} (?:currently )?support(?: the)?(?: use of)? ['\"`]?{_TOOLS}\b",
            rf"{CANNOT} (?:use|call|accept|handle|do) {_TOOLS}\b",
            rf"{_TOOLS}['\"`]?(?: (?!with\b)\w+){{0,3}} {NO}\b",
            rf"unsupported[^.\n]{{0,30}}{_TOOLS}\b(?![.\[])",
            rf"no (?:support for|endpoints found that support) {_TOOLS}\b",
            rf"(?:without (?:native )?|not trained for |\bno ){_TOOLS}(?: (?:capabilit|abilit)\w+)\b",
            rf"(?:without (?:native )?|not trained for ){_TOOLS}\b",
            r"requires? --(?:jinja|enable-auto-tool-choice|tool-call-parser)",
            r"template does not (?:support|advertise)[^.\n]{0,20} tools",
        ),
        (Change("no_tools"),),
    ),
    (
        said_by(
            rf"{_FORMAT}[^\n]{{0,60}}(?:{NO}|unavailable|cannot be)",
            rf"{CANNOT} support[^.\n]{{0,30}} {_FORMAT}",
            r"response mime type|custom grammar constraints|guided decoding|response_schema|invalid format: expected",
        ),
        (Change("json_object"), Change("omit", "response_format")),
    ),
    (said_by(r"support the provided ['\"`]?tool_choice"), (Change("omit", "tool_choice"),)),
    (said_by(r"last message must (?:be|have)[^.\n]{0,24}\buser\b"), (Change("calls_as_text"),)),
    (
        said_by(
            r"missing (?:required )?(?:field:? )?['\"`]content\b",
            r"\bcontent['\"`]? (?:must not|cannot|can't|should not) be (?:null|none|empty)",
        ),
        (Change("no_null"), Change("no_empty_text")),
    ),
    (
        said_by(r"template error|rendering (?:prompt|chat|the)[^\n]{0,24} template|jinja"),
        (Change("no_null"), Change("calls_as_text"), Change("alternate"), Change("no_system")),
    ),
)
"""Words that name no part of a request in a form that could be read, and the changes that may help. They count with
each status."""
_EXTRA = said_by(
    r"extra|unexpected|unknown|unrecogni[sz]ed|unsupported",
    r"not (?:supported|permitted|allowed|recogni)",
    r"additional propert",
)
_MISSING = said_by(
    r"missing|required|expected|passed back",
    r"must be (?:passed|sent|provided|included)",
)
_INSTEAD = said_by(
    r"use (?:the )?[\"'`]?([a-z]{2,}(?:_[a-z]+){1,4})[\"'`]? instead",
    r"(?:replaced by|renamed to|in favou?r of) [\"'`]?([a-z]{2,}(?:_[a-z]+){1,4})",
)
_UPPER_BOUND = re.compile(
    r"(?:at most|maximum(?: \w+){0,5}?(?: is| of|:)?|max(?:imum)? allowed(?: is)?|less than or equal to|<=|up to"
    r"|limit of|must be (?:less than|below|under)|cannot exceed|must not exceed|exceed(?:s|ed)?(?: the)?(?: \w+){0,3}"
    r"|\d >|tokens >|, )[ \[(`'\"]{0,2}(\d[\d,]{0,10})",
    re.I,
)
_EXCLUSIVE = re.compile(r"to (\d{1,10}) \(exclusive\)", re.I)
_OTHER_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_SCHEMA = said_by(
    r"schema|grammar|guided|outlines|parameters|tool definition",
    r"function[_ ](?:declaration|parameter)",
    r"invalid (?:tool|function)",
    r"(?:tool|function)s?\b[^.\n]{0,30} (?:invalid|malformed)",
)
_OF_SCHEMA = said_by(r"schema|grammar|function[_ ]parameter|invalid (?:tool|function)")
_OF_TOOL_NAME = said_by(r"(?:tool|function)(?:'s)? names?\b")
_TOOL_PARTS = frozenset(
    {"tools", "functions", "function_declarations", "functionDeclarations", "toolSpec", "inputSchema"}
)


def changes_for(refusal: ServerRefusal, refused: RefusedRequest) -> Iterator[Change | Changes]:
    """Yield the changes that may help, the best first: the first that alters the request is to be made."""
    if says_too_long(refusal.words):
        yield from _lower_answer_limit(refusal, refused)
        return
    if refused.texts:
        yield from changes_of_texts(refusal, refused.texts)
    yield from _changes_of_reasoning(refusal)
    for path in refusal.paths:
        if path[0] == "messages":
            yield from changes_of_message(refusal.words, path)
    for words, changes in _TABLE:
        if words.search(refusal.words):
            yield from changes
    if refusal.status in _REFUSED_STATUSES:
        yield from _changes_of_paths(refusal, refused)
        yield from _changes_of_names(refusal, refused)
        yield from _changes_of_tools(refusal, refused)


def speaks_of_request(words: str) -> bool:
    """Whether words that come with the status of an outage refuse the content of a request."""
    return REASONING in words or speaks_of_texts(words) or any(pattern.search(words) for pattern, _ in _TABLE)


def _changes_of_reasoning(refusal: ServerRefusal) -> Iterator[Change]:
    """Yield the change for reasoning: some servers miss it where another model has called tools, others refuse it."""
    if REASONING not in refusal.words:
        return
    if _EXTRA.search(refusal.words) and not _MISSING.search(refusal.words):
        yield Change("no_reasoning")
    else:
        yield Change("fill_reasoning")


def _lower_answer_limit(refusal: ServerRefusal, refused: RefusedRequest) -> Iterator[Change]:
    """Yield a lower limit for the answer: some servers refuse a prompt that fits, for the room that the answer
    reserves."""
    for name in ("max_tokens", "max_completion_tokens"):
        asked = as_number(refused.fields.get(name, b"").decode())
        if asked and name not in refused.once and (left := room_left(refusal.words, asked)):
            yield Change("lower", name, left)


def _changes_of_paths(refusal: ServerRefusal, refused: RefusedRequest) -> Iterator[Change | Changes]:
    for path in map(_from_tools, refusal.paths):
        if path[0] in _TOOL_PARTS:
            if len(path) > 1:
                yield from _changes_of_tool(refusal, refused, path)
            elif _EXTRA.search(refusal.words) and not KEYWORDS.search(refusal.words):
                yield Change("no_tools")
        elif path[0] != "messages":
            yield from _path_field(refusal, refused, path)


def _from_tools(path: Path) -> Path:
    """Return the path from the tools on, where it leads to one: Bedrock puts tools into `toolConfig`."""
    at = next((at for at, step in enumerate(path) if step in _TOOL_PARTS), 0)
    return path[at:]


def _path_field(refusal: ServerRefusal, refused: RefusedRequest, path: Path) -> Iterator[Change]:
    """Yield the changes of the fields that a path names, the innermost field first."""
    depths = {name: at for name in refused.fields for at, step in enumerate(path) if step in names_of(name)}
    for name in sorted(depths, key=lambda each: -depths[each]):
        yield from _changes_of_field(refusal, refused, name)


def _changes_of_names(refusal: ServerRefusal, refused: RefusedRequest) -> Iterator[Change]:
    """Yield the changes of the fields that the words name, in the order of their names in the words."""
    found = [(at, name) for name in refused.fields if (at := place_of(name, refusal.words)) is not None]
    for _, name in sorted(found, key=lambda each: (each[1] in ("tools", "stream"), each[0])):
        if name != "tools":
            yield from _changes_of_field(refusal, refused, name)
        elif not _speaks_of_one(refusal.words, refused):
            yield Change("no_tools")


def _speaks_of_one(words: str, refused: RefusedRequest) -> bool:
    """Whether one tool or its schema is refused, and not tools in general."""
    return bool(_OF_SCHEMA.search(words) or KEYWORDS.search(words) or _tools_named(words, refused))


def _changes_of_field(refusal: ServerRefusal, refused: RefusedRequest, name: str) -> Iterator[Change]:
    """Yield the changes where one field is refused: its other name, a smaller number, another form, or to leave it
    out."""
    if name in ("messages", "model"):
        return
    if name == "system":
        if WANTS_TEXT.search(refusal.words):
            yield Change("plain_text")
        yield Change("no_system")
    value = refused.fields[name]
    new = next((match[1] or match[2] for match in _INSTEAD.finditer(refusal.words)), None)
    if new is not None and new != name and new not in refused.fields:
        yield Change("rename", name, new)
    asked = as_number(value.decode()) if len(value) < 16 else None
    if asked is not None:
        most = [as_number(found) for found in _UPPER_BOUND.findall(refusal.words)]
        most += [int(found) - 1 for found in _EXCLUSIVE.findall(refusal.words)]
        allowed = [n for n in most if n is not None and 0 < n < asked]
        if allowed and asked > _MAX_SHARE:
            yield Change("lower", name, max(allowed))
    if name in _OTHER_NAMES and name not in refused.required:
        yield Change("rename", name, _OTHER_NAMES[name])
    if name == "response_format" and b'"json_object"' not in value:
        yield Change("json_object")
    if name not in refused.required:
        yield Change("omit", name)


_MAX_SHARE = 16
"""Largest number that is taken for a share or a count, whose bounds mean little: its field is left out."""


def _changes_of_tools(refusal: ServerRefusal, refused: RefusedRequest) -> Iterator[Change | Changes]:
    """Yield the changes where a tool or a schema is refused in words alone."""
    if not refused.tools or any(path[0] in _TOOL_PARTS and len(path) > 1 for path in refusal.paths):
        return
    words = refusal.words
    named = _tools_named(words, refused)
    if named and _OF_TOOL_NAME.search(words):
        yield Change("omit_tool", named[0])
    if named or KEYWORDS.search(words) or _SCHEMA.search(words):
        yield from _lighter_tools(refusal, named, refused)


def _changes_of_tool(refusal: ServerRefusal, refused: RefusedRequest, path: Path) -> Iterator[Change | Changes]:
    """Yield the changes where a path leads to a tool, or to all of them."""
    numbers = [int(step) for step in path if step.isdecimal() and len(step) < 6]
    if "function_declarations" in path or "functionDeclarations" in path:
        numbers = numbers[1:] or numbers
    named = [refused.tools[number] for number in numbers[:1] if number < len(refused.tools)]
    named += [name for name in _tools_named(refusal.words, refused) if name not in named]
    if "name" in path[-2:] and named:
        yield tuple(Change("omit_tool", name) for name in named[:1])
    yield from _lighter_tools(refusal, named, refused)


def _lighter_tools(refusal: ServerRefusal, named: Sequence[str], refused: RefusedRequest) -> Iterator[Change | Changes]:
    """Yield lighter forms of all tools, then the tools without the one that is named; without unusual ones, and
    without all."""
    words = refusal.words
    most = [n for n in map(as_number, _ITEM_LIMIT.findall(words)) if n]
    if _DESCRIPTION.search(words):
        yield Change(
            "shorten_descriptions", value=max([n for n in most if n >= _MIN_DESCRIPTION], default=MAX_DESCRIPTION)
        )
    elif most and _TOO_MANY.search(words):
        yield Change("fewer_tools", value=min(most))
    for level in (WITHOUT_BOUNDS, CORE, BARE):
        yield Change("loosen_tools", value=level)
    yield Change("shorten_descriptions", value=MAX_DESCRIPTION)
    for name in named:
        yield Change("omit_tool", name)
    if not named:
        if refused.unusual_tools:
            yield tuple(Change("omit_tool", name) for name in refused.unusual_tools)
        yield Change("no_tools")


_DESCRIPTION = said_by(
    r"descri\w{0,12}[^\n]{0,80}(?:long|length|exceed|characters|at most)", r"(?:long|length)[^.\n]{0,40} descri"
)
_TOO_MANY = said_by(
    r"array too long",
    r"too many (?:tools|functions)",
    r"(?:tools|functions)\b[^.\n]{0,60}(?:at most|maximum|exceed|limit)",
    r"(?:at most|maximum)[^.\n]{0,40} (?:tools|functions)\b",
)
_ITEM_LIMIT = re.compile(
    r"(?:maximum(?: (?:length|number))?|at most|limit(?: of| is)|up to|<=|exceeds?)[^\d\n]{0,24}(\d[\d,]{0,9})", re.I
)
_MIN_DESCRIPTION = 64
"""Characters of a description that every server takes."""


def _tools_named(words: str, refused: RefusedRequest) -> list[str]:
    """Return the offered tools that the words name and mark as names, for a tool may be called by any word."""
    return [name for name in refused.tools if name in words and _tool_name_pattern(name).search(words)]


@lru_cache(maxsize=512)
def _tool_name_pattern(name: str) -> re.Pattern[str]:
    word = re.escape(name)
    return re.compile(rf"""["'`]{word}["'`]|(?:tool|function|named?):? ?{word}(?![\w-])""", re.I)
