"""No reader of what clients, models, tools and documents say holds a service for long, at the largest that it is given.

Patterns are timed in test_patterns.py, answers that must be JSON in instructions/test_output.py.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import thread_time
from typing import Any

import pytest

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.plain_json import read_json
from pentad.contracts.quotes import quotes_in
from pentad.services.gateway.domain.frames import read_object
from pentad.services.gateway.http import BODY_LIMIT
from pentad.services.router.domain.control_words import control_of
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.tool_worker.builtins.calculator import calculator
from pentad.services.tool_worker.domain import named_call
from pentad.shared.clipping import clip, plain
from pentad.shared.digests.utterance import read_utterance
from pentad.shared.inbound.arrival import read_entry
from pentad.shared.instructions.schema_check import schema_weight
from pentad.shared.models.offline_intents import Before, wishes
from pentad.shared.models.offline_memory import from_conversation
from pentad.shared.models.sse_decoder import SseDecoder
from pentad.shared.models.think_tags import ThinkTags
from pentad.shared.recall.proper_names import names_of
from pentad.shared.recall.questions import read_question
from pentad.shared.recall.same_words import words_digest
from pentad.shared.recall.segment_cues import asks, asks_when, ends_asking, names_time
from pentad.shared.recall.terms import terms_of
from pentad.shared.segments.splitting import LONGEST, spans_of

BOUND_S = 0.5
"""Ten times what is promised, for a machine that is slow or busy."""
ANSWER = 1 << 20
"""Bytes of a model's text, and of a tool's result, as they are read at once."""
_TOOLS = {"calculator": {"required": ["expression"]}, "current_time": {}, "echo": {"required": ["text"]}}


def _fed(feed: Callable[[Any], object], text: str | bytes, size: int) -> None:
    for at in range(0, len(text), size):
        feed(text[at : at + size])


def _deep(text: str) -> Mapping[str, Any]:
    """A schema as wide as an instruction's may be, made of a text."""
    words = text[:200]
    return {"anyOf": [{"properties": {words[: n % 7]: {"$ref": "#/$defs/x"}}} for n in range(300)], "$defs": {"x": {}}}


READERS: Mapping[str, tuple[Callable[[str], object], int]] = {
    "a body": (lambda text: read_object(text.encode()), BODY_LIMIT),
    "JSON": (read_json, BODY_LIMIT),
    "an inbound entry": (lambda text: read_entry("1-1", {b"data": text.encode()}, 4), BODY_LIMIT),
    "the entry of a call": (lambda text: named_call(text.encode()), ANSWER),
    "a call's arguments": (parse_arguments, ANSWER),
    "control in words": (control_of, MAX_CONTENT),
    "an utterance": (read_utterance, MAX_CONTENT),
    "what is asked of the offline model": (lambda text: wishes(text, _TOOLS, Before(None, "5")), MAX_CONTENT),
    "a follow-up": (lambda text: wishes(text, _TOOLS, Before(("echo", {"text": "a"}))), MAX_CONTENT),
    "a conversation": (lambda text: from_conversation(text, [text] * 8), MAX_CONTENT),
    "quotations": (quotes_in, ANSWER),
    "names": (names_of, ANSWER),
    "a question": (lambda text: read_question(text, [text[:60]] * 10), MAX_CONTENT),
    "cues": (lambda text: [look(text) for look in (asks, ends_asking, names_time, asks_when)], ANSWER),
    "terms": (terms_of, ANSWER),
    "the words of a memory": (words_digest, LONGEST),
    "pieces of a text": (lambda text: list(spans_of(text)), MAX_CONTENT),
    "events of a model": (lambda text: _fed(SseDecoder().feed, text.encode(), 4_096), ANSWER),
    "events in small pieces": (lambda text: _fed(SseDecoder().feed, text.encode(), 1), 1 << 15),
    "thoughts": (lambda text: _fed(ThinkTags(begun=False).split, text, 64), ANSWER),
    "thoughts in small pieces": (lambda text: _fed(ThinkTags(begun=True).split, text, 1), 1 << 13),
    "a schema": (lambda text: schema_weight(_deep(text)), MAX_CONTENT),
    "an expression": (calculator, MAX_CONTENT),
    "a text for the log": (lambda text: (plain(text, 1_000), clip(text, 1_000)), ANSWER),
}
PIECES = (
    *("a", " ", "\n", "1", "(", "[", "{", '"', '{"a":', "[1,", "[],", "{}", "\\", "- ", "我", "A ", "ﷺ", "1+1 ", "!?"),
    *("<think>", "</think>", "<recalled>\n", "</recalled>", "data: x\n\n", "data: ", "\r", "\r\n", ": ", "echo ", "…"),
    *(
        '"tenant_id" : ',
        '{"session_id":"s1","content":"',
        "1e5,",
        "1" * 299 + ",",
        "\ud800",
        "é",
        "cancel that ",
        "no, ",
    ),
)


def _texts(size: int) -> Iterator[tuple[str, str]]:
    for piece in PIECES:
        body = (piece * (size // len(piece) + 1))[: size - 2]
        yield repr(piece), body
        yield f"{piece!r} in brackets", f"[{body}]"


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_long_on_hostile_text(name: str) -> None:
    read, size = READERS[name]
    for length in (size // 16, size):
        for about, text in _texts(length):
            took = min(_cost(read, text), _cost(read, text)) if _cost(read, text) > BOUND_S / 5 else 0.0
            assert took < BOUND_S, f"{took:.3f} s for {about} again and again, {length} characters"


def _cost(read: Callable[[str], object], text: str) -> float:
    begun = thread_time()
    with suppress(Exception):  # how each refuses: tests/fuzz/test_readers.py
        read(text)
    return thread_time() - begun
