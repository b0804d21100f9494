"""What is recalled fits into its budget of tokens."""

from random import Random

import pytest

from pentad.shared.memory.quotes import fitting, tokens_in
from tests.unit.segments.transcripts import HOSTILE


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("cat", 1), ("four", 2), ("你好吗", 3), ("a 你", 2), ("🎉", 2)])
def test_tokens_are_rather_too_many_than_too_few(text: str, tokens: int) -> None:
    assert tokens_in(text) == tokens


def test_a_memory_that_is_too_long_makes_room_for_shorter_ones() -> None:
    memories = ["a" * 30, "b" * 300, "c" * 30]
    assert fitting(memories, str, 25) == [memories[0], memories[2]]
    assert fitting(memories, lambda memory: memory + "." * 30, 25) == [memories[0]]
    assert fitting(memories, str, 0) == fitting(memories, str, -5) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_budget_is_never_exceeded(seed: int) -> None:
    chance = Random(seed)
    memories = [chance.choice(HOSTILE)[: chance.randint(0, 900)] for _ in range(100)]
    budget = chance.randint(0, 3_000)
    assert sum(map(tokens_in, fitting(memories, str, budget))) <= budget
