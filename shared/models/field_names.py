"""What servers call the fields of a request, and where their words name one. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

_ALSO_CALLED = {
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
"""What servers behind another's protocol call a field."""


def names_of(name: str) -> tuple[str, ...]:
    """What a field may be called, its own name first."""
    return (name, *_ALSO_CALLED.get(name, ()))


def place_of(name: str, words: str) -> int | None:
    """Where the words of a server name a field first; None: nowhere."""
    places = [match.start() for each in names_of(name) if (match := _naming(each).search(words))]
    return min(places, default=None)


@lru_cache(maxsize=512)
def _naming(name: str) -> re.Pattern[str]:
    """Where a text names a field: one that is also a word of English, only where it is marked as a name."""
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
