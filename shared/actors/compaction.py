"""Messages that prompts have in short: how a model is asked for their summary, and the text that stands for them. Pure.

The question is made of the transcript alone, so that it can be made again and proved like every other prompt.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.clipping import clip

Placed = tuple[int, bytes]
"""A message in OpenAI chat form, as JSON, with its position in the transcript."""
_SUMMARY, _LEFT_OUT = "[Summary of", "[Left out here:"
_LEAST_WORDS, _MOST_WORDS, _CHARS_PER_WORD = 60, 800, 36
"""Limits of the length that a summary is asked for, and characters of the messages for each of its words."""
_MOST_CHARS_PER_WORD = 16
"""Characters of a summary for each word that it was asked for; what is longer is cut."""


def asks_for_summary(items: Sequence[Placed]) -> bytes:
    """Return the message, as JSON, that asks for a summary of these messages."""
    names: dict[str, str] = {}
    told = "\n".join(_told(position, from_json(line), names) for position, line in items)
    how = f"Summarise these messages in at most {words_for(items)} words."
    return to_json({"role": "user", "content": f"{told}\n\n{how}"})


def words_for(items: Sequence[Placed]) -> int:
    """Return the number of words that the summary of these messages may have."""
    return max(_LEAST_WORDS, min(_MOST_WORDS, sum(len(line) for _, line in items) // _CHARS_PER_WORD))


def summary_text(items: Sequence[Placed], summary: str, *, opens: bool) -> str:
    """Return the text that stands for these messages in prompts.

    ``opens``: the model may open a message by its number.
    """
    how = (
        " A number in brackets is that of a message: memory_expand with it as anchor opens its words." if opens else ""
    )
    head = f"{_SUMMARY} the conversation up to message {_last(items)}.{how}]"
    return f"{head}\n{clip(summary.strip(), words_for(items) * _MOST_CHARS_PER_WORD)}"


def left_out_text(items: Sequence[Placed], *, opens: bool) -> str:
    """Return the note that stands for these messages where there is no summary of them."""
    how = " memory_expand with the number of one as anchor opens its words." if opens else ""
    one = len(items) == 1
    what = f"message {_last(items)}" if one else f"earlier messages, up to message {_last(items)}"
    return f"{_LEFT_OUT} {what} of this conversation.{how}]"


def is_summary(line: bytes) -> bool:
    """Return whether a text that stands for messages is a summary. ``line``: as prompts have it."""
    return line.startswith(b'{"role":"user","content":"%s' % _SUMMARY.encode())


def _last(items: Sequence[Placed]) -> int:
    return max(position for position, _ in items)


def _told(position: int, message: dict[str, Any], names: dict[str, str]) -> str:
    """Return a message in words. ``names`` of the tools by the ids of their calls grow with each call."""
    role, content = message["role"], str(message.get("content") or "")
    if role == "tool":
        return f"[{position}] result of {names.get(message.get('tool_call_id') or '', 'a tool')}: {content}"
    lines = [f"[{position}] {role}: {content}"] if content else []
    for call in message.get("tool_calls") or ():
        names[call["id"]] = call["function"]["name"]
        lines.append(f"[{position}] {role} calls {call['function']['name']} {call['function']['arguments']}")
    return "\n".join(lines) or f"[{position}] {role}:"
