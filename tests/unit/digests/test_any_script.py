"""A pattern finds in plain ASCII what it finds in any text: no alternative for other scripts matches ASCII."""

import pytest

from pentad.shared.digests import cues
from pentad.shared.digests.cues import AnyScript

PATTERNS = {name: kept for name, kept in vars(cues).items() if isinstance(kept, AnyScript)} | {
    f"asks for {kind}": pattern for kind, pattern in cues._KINDS
}
SAYINGS = (
    "", "?", "hi there", "yes, please", "and beijing?", "what about the second one", "thanks, that's all", "bye",
    "i need a table for four at 7 pm", "is that right?", "please confirm", "please tell me where", "how many days",
    "which day suits you", "where is it", "can you book it", "no", "it was fine", "on monday, 3rd of may", "10:30",
    "find me something near the opera", "good morning", "a cat", "never mind", "2",
    "the morning", "we are going to", "_",
)  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_ascii_is_found_alike_by_both(name: str) -> None:
    pattern = PATTERNS[name]
    for text in SAYINGS:
        assert pattern.is_in(text) == (pattern._in_any(text) is not None), text


def test_the_sayings_tell_the_patterns_apart() -> None:
    for name, pattern in PATTERNS.items():
        assert {pattern.is_in(text) for text in SAYINGS} == {True, False}, name
