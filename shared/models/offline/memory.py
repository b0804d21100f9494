"""Answers questions for the offline model with the most similar words of the conversation or of recalled memories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pentad.contracts.quotes import Quote, quotes_in
from pentad.contracts.records import SegmentType
from pentad.shared.digests.wording import clean, words_of
from pentad.shared.models.loose_values import as_text

_BY_MODELS = frozenset({SegmentType.RESPONSE, SegmentType.REASONING, SegmentType.TOOL_CALL})
"""Types of segments that are no source for an answer, because a model wrote them."""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_FROM_MEMORY = ('From memory: "', "据记忆：“")
"""The beginnings of the texts that `_answer` makes."""
_MAX_READ_CHARS = 2000
"""Characters of a text that are read."""
_ASKS = re.compile(
    r"[?？]|[吗呢][。！]?\s*$|什么|谁|哪|几|多少|怎么|为何"
    r"|^\W*(?:what|who|whom|whose|where|when|which|why|how|do|does|did|is|are|was|were|can|tell me|remind me)\b",
    re.IGNORECASE,
)


def recalled_of(messages: Sequence[dict[str, Any]]) -> list[Quote]:
    """Return the quotes that were recalled for the task: its prompt begins with them, behind the system message."""
    first = next((message for message in messages[:2] if message.get("role") != "system"), {})
    return quotes_in(as_text(first.get("content"))) if first.get("role") == "user" else []


def from_conversation(question: str, earlier: Sequence[str]) -> str:
    """Return the person's earlier text that has at least half of the question's words, the latest of the best.

    The result is '' when there is no such text, or the question is none.
    """
    asked = frozenset(words_of(clean(question)))
    if not asked or not _ASKS.search(question[:_MAX_READ_CHARS]):
        return ""
    told = [text for text in earlier if not _ASKS.search(text[:_MAX_READ_CHARS])]
    best = max(reversed(told), key=lambda text: len(asked.intersection(words_of(clean(text)))), default="")
    if 2 * len(asked.intersection(words_of(clean(best)))) < len(asked):
        return ""
    return f"你说过：“{best}”" if _CHINESE.search(question[:_MAX_READ_CHARS]) else f'You said: "{best}"'


def from_memory(question: str, recalled: Sequence[Quote]) -> str:
    """Return the answer with its source; '' when the text is no question, or nobody's words but a model's were
    recalled."""
    if not _ASKS.search(question[:_MAX_READ_CHARS]):
        return ""
    told = (each for each in recalled if each.type not in _BY_MODELS and not _ASKS.search(each.text[:_MAX_READ_CHARS]))
    best = next(told, None)
    return "" if best is None else _answer(best, chinese=_CHINESE.search(question[:_MAX_READ_CHARS]) is not None)


def from_earlier_answer(question: str, answers: Sequence[str]) -> str:
    """Return an earlier answer from memory in this conversation, which the prompt does not quote a second time.

    The result is '' when the text is no question, or the answers have less than half of its words. ``answers`` are
    the model's own, the newest last.
    """
    asked = frozenset(words_of(clean(question)))
    if not asked or not _ASKS.search(question[:_MAX_READ_CHARS]):
        return ""
    told = (text for text in reversed(answers) if text.startswith(_FROM_MEMORY))
    return next((text for text in told if 2 * len(asked.intersection(words_of(clean(text)))) >= len(asked)), "")


def _answer(best: Quote, *, chinese: bool) -> str:
    day = best.at[:10]
    if chinese:
        return f"据记忆：“{best.text}”（{day + '，' if day else ''}来源 {best.anchor}）"
    return f'From memory: "{best.text}" ({day + ", " if day else ""}source {best.anchor})'
