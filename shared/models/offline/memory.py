"""What the offline model makes of what it was told: a question is answered with the words that are most like it, out of
the conversation or of what was recalled for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pentad.contracts.quotes import Quote, quotes_in
from pentad.contracts.records import SegmentType
from pentad.shared.digests.wording import clean, words_of
from pentad.shared.models.loose_values import as_text

_BY_MODELS = frozenset({SegmentType.RESPONSE, SegmentType.REASONING, SegmentType.TOOL_CALL})
"""What a model has said itself is no source."""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_FROM_MEMORY = ('From memory: "', "据记忆：“")
"""How `_answer` begins."""
_READ = 2000
"""Characters of a text that are looked at."""
_ASKS = re.compile(
    r"[?？]|[吗呢][。！]?\s*$|什么|谁|哪|几|多少|怎么|为何"
    r"|^\W*(?:what|who|whom|whose|where|when|which|why|how|do|does|did|is|are|was|were|can|tell me|remind me)\b",
    re.IGNORECASE,
)


def recalled_of(messages: Sequence[dict[str, Any]]) -> list[Quote]:
    """What was recalled for the task: its prompt begins with that, behind the system message."""
    first = next((message for message in messages[:2] if message.get("role") != "system"), {})
    return quotes_in(as_text(first.get("content"))) if first.get("role") == "user" else []


def from_conversation(question: str, earlier: Sequence[str]) -> str:
    """What the person has said before that has at least half of the question's words, the latest of the best; '' when
    there is nothing, or it is no question."""
    asked = frozenset(words_of(clean(question)))
    if not asked or not _ASKS.search(question[:_READ]):
        return ""
    told = [text for text in earlier if not _ASKS.search(text[:_READ])]
    best = max(reversed(told), key=lambda text: len(asked.intersection(words_of(clean(text)))), default="")
    if 2 * len(asked.intersection(words_of(clean(best)))) < len(asked):
        return ""
    return f"你说过：“{best}”" if _CHINESE.search(question[:_READ]) else f'You said: "{best}"'


def from_memory(question: str, recalled: Sequence[Quote]) -> str:
    """The answer with its source; '' when it is no question, or nothing that somebody told was recalled."""
    if not _ASKS.search(question[:_READ]):
        return ""
    told = (each for each in recalled if each.type not in _BY_MODELS and not _ASKS.search(each.text[:_READ]))
    best = next(told, None)
    return "" if best is None else _answer(best, chinese=_CHINESE.search(question[:_READ]) is not None)


def from_earlier_answer(question: str, answers: Sequence[str]) -> str:
    """What it has answered from memory before in this conversation, which the prompt does not quote a second time.

    '' when it is no question, or less than half of its words are there. ``answers``: its own, the newest last.
    """
    asked = frozenset(words_of(clean(question)))
    if not asked or not _ASKS.search(question[:_READ]):
        return ""
    told = (text for text in reversed(answers) if text.startswith(_FROM_MEMORY))
    return next((text for text in told if 2 * len(asked.intersection(words_of(clean(text)))) >= len(asked)), "")


def _answer(best: Quote, *, chinese: bool) -> str:
    day = best.at[:10]
    if chinese:
        return f"据记忆：“{best.text}”（{day + '，' if day else ''}来源 {best.anchor}）"
    return f'From memory: "{best.text}" ({day + ", " if day else ""}source {best.anchor})'
