"""Reads what a model server says of a request that it refuses, in whatever form it says it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from pentad.shared.immutable import immutable

MAX_WORDS = 2_048
"""Characters of a server's words in which a refusal is recognised."""
_MAX_VALUES = 2_000
"""Values of an error's body that are looked at."""
_MAX_PATHS = 64
_ECHOING_MEMBERS = frozenset({"body", "ctx", "input", "request", "url", "user_id", "request_id"})
"""Members of an error that repeat what was sent, or say nothing of it: what users write is no refusal."""
_NAMING_MEMBERS = frozenset({"field", "loc", "param", "parameter"})
"""Members of an error that name a part of the request: OpenAI's `param`, pydantic's `loc`, Google's `field`."""
_STEP = re.compile(r"\w+(?:-\w+)*|\$\w+")
_WRITTEN_PATH = re.compile(r"[A-Za-z_]{1,40}(?:\.?\[\d{1,6}\]|\.\w{1,60}){1,24}")
"""A path within a text: `tools[3].function.name`, `messages.2.content`."""
_PYDANTIC_PATH = re.compile(r"""['"]loc['"]\s*:\s*[\[(]([^\])]{1,300})[\])]""")
"""A path of pydantic as it stands in a text."""
_PREFIXES = frozenset({"body", "request", "GenerateContentRequest"})

_OTHER_NAMES = {
    "response_format": ("response_schema", "response_mime_type", "response_json_schema", "responseSchema"),
    "max_tokens": ("maximum_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens", "maxTokens"),
    "max_completion_tokens": ("max_output_tokens", "max_new_tokens", "maxOutputTokens"),
    "stop": ("stop_sequences", "stopSequences"),
    "frequency_penalty": ("penalty",),
    "presence_penalty": ("penalty",),
    "reasoning_effort": (
        "reasoning", "thinking", "thinking_mode", "thinking_config", "thinking_budget", "thinkingConfig",
        "reasoning.effort", "enable_thinking",
    ),
    "tools": ("functions", "function_declarations", "functionDeclarations", "toolConfig"),
    "tool_choice": ("tool_config", "toolChoice", "function_call", "tool choice"),
    "thinking": ("thinking.type", "budget_tokens"),
    "cache_control": ("prompt_caching", "prompt_cache"),
    "output_config": ("effort",),
}  # fmt: skip
"""Names that servers behind another's protocol give to a field."""

NO = (
    r"(?:not|n't|un)[ -]?(?:currently |yet |been )?(?:supported|allowed|permitted|available|enabled|implemented"
    r"|recogni[sz]ed|accepted|compatible)"
)
CANNOT = r"(?:(?:does|do|did|is|are|was) ?(?:not|n't)|doesn't|don't|cannot|can't|not able to)"
"""Words with which servers say that they do not take something: `NO` behind its name, `CANNOT` before it."""

Path = tuple[str, ...]
"""A path into a request: `("tools", "3", "function", "name")`."""


@immutable
class ServerRefusal:
    """One refusal. ``words`` is the whole text of the server, up to `MAX_WORDS`, without the API key."""

    status: int
    words: str
    paths: tuple[Path, ...] = ()
    """The parts of the request that the server names, those of the error's own members first."""


def read_refusal(status: int, said: object, words: str) -> ServerRefusal:
    """Return the refusal that a body says. ``said`` is the body, as JSON when it could be read; ``words`` its
    message."""
    named: list[Path] = []
    texts = [words]
    for name, value in members(said, _ECHOING_MEMBERS):
        if name in _NAMING_MEMBERS:
            named += [path for path in map(_path, _listed(value)) if path]
        if isinstance(value, str) and value not in words:
            texts.append(value)
    whole = "\n".join(texts)[:MAX_WORDS]
    written = [_path(match[0]) for match in _WRITTEN_PATH.finditer(whole)]
    quoted = [_path(match[1].replace(",", ".")) for match in _PYDANTIC_PATH.finditer(whole)]
    paths = dict.fromkeys([*named, *quoted, *written][:_MAX_PATHS])
    return ServerRefusal(status, whole, tuple(path for path in paths if path))


def members(said: object, without: Collection[str] = ()) -> Iterator[tuple[str, object]]:
    """Yield the members of an error's objects, however deep, in their order, with their names. At most 2,000 are
    read."""
    waiting: list[tuple[str, object]] = [("", said)]
    for _ in range(_MAX_VALUES):
        if not waiting:
            return
        name, value = waiting.pop()
        yield name, value
        if isinstance(value, Mapping):
            waiting += [(str(key), each) for key, each in reversed(list(value.items())) if key not in without]
        elif isinstance(value, list):
            waiting += [(name, each) for each in reversed(value)]


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return [value[:1_000]]
    if isinstance(value, list):
        return [".".join(str(step) for step in value[:24])[:1_000]]
    return []


def _path(text: str) -> Path:
    steps = _STEP.findall(text)
    while steps and steps[0] in _PREFIXES:
        steps = steps[1:]
    return tuple(steps)


def said_by(*patterns: str) -> re.Pattern[str]:
    """Return a pattern that finds any of these patterns in a server's words."""
    return re.compile("|".join(patterns), re.I)


WANTS_TEXT = said_by(
    r"expected (?:type: )?(?:an? )?str(?:ing)?\b[^.\n]{0,24}?(?:got|found|received|given)[^.\n]{0,16}?"
    r"(?:array|list|sequence|slice)",
    r"invalid type: (?:sequence|array|list)[^.\n]{0,24}expected (?:a |an? ?)?(?:borrowed )?str",
    r"cannot unmarshal array[^\n]{0,80}string",
    r"\] is not of type ['\"`]string",
    r"(?:should|must) be (?:a |of type )?(?:valid |single |type )?['\"`]?str(?:ing)?\b['\"`]?(?! or| \||,? array)",
    r"\bstr(?:ing)? type expected",
)
"""Words of servers that take a text and no list."""


def as_number(value: Any) -> int | None:
    """Return a whole number as servers write it, with or without commas; None for everything else."""
    digits = str(value).replace(",", "").replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 12 else None


def names_of(name: str) -> tuple[str, ...]:
    """Return the names that a field may have, its own name first."""
    return (name, *_OTHER_NAMES.get(name, ()))


def place_of(name: str, words: str) -> int | None:
    """Return the position at which the words of a server first name a field; None when they do not."""
    places = [match.start() for each in names_of(name) if (match := _name_pattern(each).search(words))]
    return min(places, default=None)


@lru_cache(maxsize=512)
def _name_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a name of a field: one that is also a word of English counts only where it is marked as
    a name."""
    return re.compile(_distinct(name) if _is_distinct(name) else _marked(name), re.I)


def _is_distinct(name: str) -> bool:
    return "_" in name or name in ("temperature", "logprobs", "verbosity", "dimensions") or name != name.lower()


def _distinct(name: str) -> str:
    return rf"(?<![\w-]){re.escape(name).replace('_', '[ _-]?')}(?![\w-])"


def _marked(name: str) -> str:
    word = re.escape(name)
    return "|".join(
        (
            rf"""["'`“‘\[(*]{word}["'`”’\])*:]""",
            rf"\b(?:param(?:eter)?|argument|field|property|properties|key|option|attribute|supplied|provided)s?(?:\(s\))?"
            rf"\s?:?\s?(?:[\w-]{{1,40}}, ?){{0,12}}{word}\b",
            rf"(?:^|\n){word}\s?:",
            rf":\s?{word}\s*(?:$|[.,;:\n])",
            rf"\b{word} (?:is|are|was|must|should|cannot|does|param(?:eter)?|argument|field|option|value)\b",
            rf"\bsupport(?:ed|s)?:?(?: the)? {word}\b",
            rf"\bunsupported (?:\w+ )?{word}\b",
        )
    )
