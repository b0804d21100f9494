"""Readers of JSON from servers, in which anything may be wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from pentad.contracts.plain_json import collector_waits, values_in
from pentad.shared.models.answer_text import has_half

_DELTA = ("choices", 0, "delta")
_ANSWER_TEXTS: Sequence[Sequence[str | int]] = (
    *((*_DELTA, name) for name in ("content", "reasoning_content", "reasoning")),
    (*_DELTA, "tool_calls", "*", "function", "arguments"),
    (*_DELTA, "tool_calls", "*", "arguments"),
    (*_DELTA, "function_call", "arguments"),
    *(("delta", name) for name in ("text", "thinking", "partial_json")),
)
"""Paths to the texts of a streamed answer in OpenAI's protocol and in Anthropic's; ``*`` is each member of a list."""
_MAX_TOKENS = 10**12
_MAX_DIGITS = 13
MAX_VALUES = 100_000
"""Values that a document may have: each takes up to a hundred times its bytes, and is made while the event loop waits.
"""


_MAX_MENDED_BYTES = 1 << 20
"""Bytes of a document whose characters are mended: to read it twice and write it once takes 50 ms."""


def parse_object(data: bytes, *, with_halves: bool = False, max_values: int = MAX_VALUES) -> dict[str, Any]:
    """Return a JSON object; halves of surrogate pairs and bytes that are not UTF-8 become marks of replacement.

    ``with_halves`` keeps the halves and the bytes in the texts of a streamed answer, for an `AnswerText`.
    Raises `ValueError` for text that is not a JSON object, for one of more than ``max_values`` values, and for one of
    more than 1 MiB with such halves or bytes.
    """
    if len(data) > max_values and values_in(data, max_values) > max_values:
        raise ValueError(f"it has more than {max_values:,} values")
    try:
        with collector_waits(data):
            parsed = from_json(data, cache_strings="keys")
    except ValueError:
        if len(data) > _MAX_MENDED_BYTES:
            raise
        parsed = _parse_damaged(data, with_halves)
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - a fault of the text, like any other
    return parsed


def _parse_damaged(data: bytes, with_halves: bool) -> Any:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
        whole = from_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        if with_halves:
            cut = json.loads(data.decode("utf-8", "surrogateescape"))
            for path in _ANSWER_TEXTS:
                _keep_halves(cut, whole, path)
        return whole
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _keep_halves(cut: Any, whole: Any, path: Sequence[str | int]) -> None:
    """Put the texts at this path of ``cut`` into ``whole``, those that have parts of characters."""
    for position, key in enumerate(path[:-1]):
        if key == "*":
            if isinstance(cut, list):
                for cut_member, whole_member in zip(cut, whole, strict=True):
                    _keep_halves(cut_member, whole_member, path[position + 1 :])
            return
        try:
            cut, whole = cut[key], whole[key]
        except (LookupError, TypeError):
            return
    if isinstance(cut, dict) and has_half(cut.get(path[-1])):
        whole[path[-1]] = cut[path[-1]]


def as_dict(value: Any) -> dict[str, Any]:
    """Return the value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """Return the value when it is text, the joined texts when it is a list of content parts, else an empty text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(as_text(as_dict(part).get("text")) for part in value)
    return ""


def token_count(value: Any) -> int:
    """Return the value when it is a plausible number of tokens, also one that was written as a text, else 0."""
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else 0
