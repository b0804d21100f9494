"""No pattern of the house holds a service for long, whatever a client, a model, a tool or a document says.

The patterns are found by looking through all modules, so that a new one is held to the same. A pattern that sees only
texts of a bounded length has that length here, from the constant that bounds it.
"""

from collections.abc import Mapping

import pytest

from pentad.contracts import ids
from pentad.contracts.commands import MAX_CONTENT
from pentad.services.router.domain.control_words import MAX_CONTROL_CHARS
from pentad.services.task_runner import prompt, spoken_decisions
from pentad.services.tool_worker.children import tool_output
from pentad.shared import command_settings
from pentad.shared.digests import wording
from pentad.shared.models.offline import intents, memory
from pentad.shared.models.refusal import MAX_WORDS
from pentad.shared.recall import cues, proper_names, questions, terms
from pentad.shared.segments import segment
from tests.support.patterns import Found, every_pattern, slowest
from tests.support.slowness import slowness

LONGEST = 1 << 20
"""Bytes of a text that nothing else bounds: what a request's body, a tool's result or an answer may have."""
LIMITS: Mapping[str, int] = {
    "pentad.contracts.ids._NAME": ids._MAX_NAME,
    "pentad.contracts.instructions._PLACEHOLDER": 65_536,
    "pentad.services.router.domain.control_words": MAX_CONTROL_CHARS,
    "pentad.services.task_runner.prompt._NOT_IN_NAMES": prompt._NAME_LENGTH,
    "pentad.services.task_runner.spoken_decisions": spoken_decisions._MOST_CHARACTERS,
    "pentad.services.tool_worker.children.tool_output": tool_output._MAX_LINE,
    "pentad.shared.command_settings": command_settings._MAX_FILE_BYTES,
    "pentad/cli/gateway.py": 128,
    "pentad.shared.digests": wording.MOST_CHARS,
    "pentad.shared.models.embeddings": segment.MAX_SEGMENT_CHARS,
    "pentad.shared.models.offline.model": MAX_CONTENT,
    "pentad.shared.models.offline.intents._ECHO": MAX_CONTENT,
    "pentad.shared.models.offline.intents._FOLLOW_UP": 80,
    "pentad.shared.models.offline.intents": intents._MAX_READ_CHARS,
    "pentad.shared.models.offline.memory": memory._MAX_READ_CHARS,
    "shared/models/offline": intents._MAX_READ_CHARS,
    "pentad.shared.models.refusal.": MAX_WORDS,
    "pentad.shared.models.refused_": MAX_WORDS,
    "shared/models/refused_": MAX_WORDS,
    "pentad.shared.models.refusal_table": MAX_WORDS,
    "shared/models/refusal_table": MAX_WORDS,
    "pentad.shared.models.stated_delay._DAILY_METRIC": LONGEST,
    "pentad.shared.models.stated_delay": MAX_WORDS,
    "pentad.shared.models.too_long": MAX_WORDS,
    "shared/models/too_long": MAX_WORDS,
    "pentad.shared.plugins.docstrings": 1 << 16,
    "pentad.shared.recall.cues._WISHES": cues._MOST_CHARS,
    "pentad.shared.recall.cues._OF_ONESELF": cues._MOST_CHARS,
    "pentad.shared.recall.cues": 2 * cues.MOST_CHARS + 1,
    "pentad.shared.recall.proper_names": proper_names._MOST_CHARS,
    "pentad.shared.recall.questions": questions.MOST_CHARS,
    "shared/recall/questions.py": questions.MOST_CHARS,
    "pentad.shared.recall.terms._WORD": segment.MAX_SEGMENT_CHARS,
    "pentad.shared.recall.terms": terms.MOST_CHARS,
    "pentad.shared.memory.quotes": segment.MAX_SEGMENT_CHARS,
    "pentad.shared.segments.segment": segment.MAX_SEGMENT_CHARS - segment.MIN_CUT_CHARS + 1,
}
"""Characters that a pattern sees at most, by the beginning of its place; the first that fits counts."""
AGAIN = 4
"""Further measurements of what has taken long: what is slow is slow each time, and a busy machine now and then."""
BOUND_S = 0.075
"""Half more than what is promised of a quiet machine; what is slower now has as much more time."""


def limit_of(place: str) -> int:
    return next((limit for begins, limit in LIMITS.items() if place.startswith(begins)), LONGEST)


EVERY = every_pattern()


def test_patterns_are_found_where_modules_keep_them_and_where_calls_have_them() -> None:
    places = {found.place for found in EVERY}
    assert "pentad.contracts.ids._ID" in places
    assert any(place.startswith("pentad.services.router.domain.control_words._PATTERNS") for place in places)
    assert any(place.startswith("pentad.shared.digests.cues._OPENER") for place in places), "within an object"
    assert any(place.startswith("shared/models/offline/intents.py:") for place in places), "within a call"


@pytest.mark.parametrize("found", EVERY, ids=[f"{n}-{found.place}" for n, found in enumerate(EVERY)])
def test_no_pattern_takes_long_on_hostile_text(found: Found) -> None:
    worst = slowest(found, limit_of(found.place), BOUND_S)
    for _ in range(AGAIN):
        if worst.seconds >= BOUND_S:  # the machine may be slow, or have been
            worst = min(worst, slowest(found, limit_of(found.place), BOUND_S), key=lambda each: each.seconds)
    assert worst.seconds < BOUND_S * slowness(), f"{worst.seconds:.3f} s for {worst.text}"
