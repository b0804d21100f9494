"""Readers of JSON from servers, in which anything may be wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from pentad.contracts.plain_json import values_in
from pentad.shared.models.half_characters import has_half

_ANSWER_TEXTS: Sequence[Sequence[str | int]] = (
    *(("choices", 0, "delta", name) for name in ("content", "reasoning_content", "reasoning")),
    ("delta", "text"),
)
"""Paths to the texts of a streamed answer in OpenAI's protocol and in Anthropic's."""
_MAX_TOKENS = 10**12
_MAX_DIGITS = 13
_MAX_VALUES = 100_000
"""Values that a document may have: each takes up to a hundred times its bytes, and is made while the event loop waits.
"""


def parse_object(data: bytes, *, with_halves: bool = False) -> dict[str, Any]:
    """Return a JSON object; halves of surrogate pairs and bytes that are not UTF-8 become marks of replacement.

    ``with_halves`` keeps the halves in the texts of a streamed answer, for a `HalfJoiner`.
    Raises `ValueError` for text that is not a JSON object, and for one of more than 100,000 values.
    """
    if len(data) > _MAX_VALUES and values_in(data, _MAX_VALUES) > _MAX_VALUES:
        raise ValueError(f"it has more than {_MAX_VALUES:,} values")
    try:
        parsed = from_json(data, cache_strings="keys")
    except ValueError:
        parsed = _parse_damaged(data, with_halves)
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - a fault of the text, like any other
    return parsed


def _parse_damaged(data: bytes, with_halves: bool) -> Any:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
        whole = from_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        if with_halves:
            for path in _ANSWER_TEXTS:
                _keep_halves(value, whole, path)
        return whole
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _keep_halves(value: Any, whole: Any, path: Sequence[str | int]) -> None:
    """Put the text at this path of ``value`` into ``whole``, if it has halves of characters."""
    for key in path[:-1]:
        try:
            value, whole = value[key], whole[key]
        except (LookupError, TypeError):
            return
    if isinstance(value, dict) and has_half(value.get(path[-1])):
        whole[path[-1]] = value[path[-1]]


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
