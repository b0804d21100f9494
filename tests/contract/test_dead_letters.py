"""Dead letters can be made of whatever comes (law 8)."""

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.work.dead_letters import letter_of_entry

DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    "data",
    [
        DEEP.encode(),
        b'{"correlation_id":"\\ud800","event_id":"\\ud800"}',
        b"\xff" * 100,
        b'{"event_id":"' + b"x" * 40_000 + b'"}',
    ],
    ids=["deep", "half a pair", "no text", "a long id"],
)
def test_a_letter_can_be_made_of_anything(data: bytes) -> None:
    fields = [(b"data", data), (b"\xff\x1b[2J", b"x")]
    letter = letter_of_entry(TOOL_CALLS, "pentad:{0}:tools:default", "1-1", fields, "why \ud800", 1, "now")
    assert DeadLetter.model_validate_json(letter.to_json()) == letter
    assert letter.chain == []
