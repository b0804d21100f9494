"""What of a long conversation is shortened, and the words for it."""

import pytest
from pydantic_core import from_json, to_json

from pentad.services.task_runner.domain.compaction import Costed, older_part, oldest_that_fit
from pentad.shared.actors.compaction import asks_for_summary, is_summary, left_out_text, summary_text, words_for
from pentad.shared.actors.transcript import placed, prompt_of, replacements_in

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}


def line(role: str, content: str = "x", **more: object) -> bytes:
    return to_json({"role": role, "content": content} | more)


def conversation(*roles: str) -> list[Costed]:
    """Messages of these roles, each of which costs ten; a role of ``a!`` calls a tool."""
    lines = [line("assistant", tool_calls=[CALL]) if role == "a!" else line(_ROLES[role]) for role in roles]
    return [Costed(position, each, 10) for position, each in enumerate(lines)]


_ROLES = {"u": "user", "a": "assistant", "t": "tool"}


def positions(units: list[list[Costed]]) -> list[int]:
    return [each.position for unit in units for each in unit]


@pytest.mark.parametrize(
    ("roles", "keep", "older"),
    [
        ("u a u a u", 20, [0, 1, 2]),
        ("u a u a u", 40, [0]),
        ("u a u a u", 50, []),
        ("u a! t t a u", 55, [0]),  # no cut between a call and its results
        ("u a! t t a u", 20, [0, 1, 2, 3]),
        ("u a! t a! t a! t", 25, [1, 2, 3, 4]),  # the question of the turn stays
        ("u a u a", 0, [0, 1]),  # and the last unit, however little may stay
        ("u", 0, []),
    ],
)
def test_calls_stay_with_their_results_and_the_question_and_the_end_stay(
    roles: str, keep: int, older: list[int]
) -> None:
    assert positions(older_part(conversation(*roles.split()), keep)) == older


def test_pinned_messages_stay() -> None:
    assert positions(older_part(conversation("u", "a", "u", "a", "u"), 10, stays={2})) == [0, 1, 3]


def test_a_summary_alone_is_not_shortened_again() -> None:
    assert older_part(conversation("u", "u", "a"), 0, notes={0}) == []
    assert positions(older_part(conversation("u", "a", "u", "a"), 0, notes={0})) == [0, 1]


def test_little_is_not_worth_a_summary() -> None:
    cheap = [Costed(0, line("user"), 1), *(Costed(n, line("user"), 100) for n in range(1, 4))]
    assert older_part(cheap, 300) == []


def test_a_model_gets_as_much_as_it_can_read_in_whole_units() -> None:
    older = older_part(conversation("u", "a!", "t", "u", "a", "u"), 0)
    assert [each.position for each in oldest_that_fit(older, 39)] == [0, 1, 2]
    assert oldest_that_fit(older, 9) == []


def test_the_question_has_each_message_with_its_number_and_its_calls_in_words() -> None:
    items = [(3, line("user", "add")), (4, line("assistant", "ok", tool_calls=[CALL]))]
    items.append((5, line("tool", "2", tool_call_id="c1")))
    asked = from_json(asks_for_summary(items))
    assert asked["role"] == "user"
    assert asked["content"].splitlines()[:4] == [
        "[3] user: add", "[4] assistant: ok", '[4] assistant calls add {"a":1}', "[5] result of add: 2",
    ]  # fmt: skip
    assert f"{words_for(items)} words" in asked["content"]


@pytest.mark.parametrize("opens", [True, False])
def test_the_text_that_stands_for_messages_is_bounded_and_says_how_to_open_them(opens: bool) -> None:
    items = [(0, line("user")), (7, line("assistant"))]
    summary, note = summary_text(items, "word " * 100_000, opens=opens), left_out_text(items, opens=opens)
    assert len(summary) < 2_000
    assert "message 7" in summary
    assert "message 7" in note
    assert ("memory_expand" in summary) == ("memory_expand" in note) == opens
    assert is_summary(line("user", summary))
    assert not is_summary(line("user", note))


def compaction(content: str, *at: int) -> bytes:
    return to_json(
        {"role": "compaction", "positions": list(at), "content": content, "tokens_before": 9, "tokens_after": 3}
    )


def test_a_second_summary_takes_the_place_of_the_first_and_nothing_comes_back() -> None:
    lines = [line("user", "a"), line("assistant", "b"), compaction("one", 0, 1), line("user", "c")]
    assert [from_json(each)["content"] for each in prompt_of(lines, replacements_in(lines))] == ["one", "c"]
    assert [position for position, _ in placed(lines, replacements_in(lines))] == [2, 3]
    lines += [line("assistant", "d"), compaction("two", 2, 3), line("user", "e")]
    assert [from_json(each)["content"] for each in prompt_of(lines, replacements_in(lines))] == ["two", "d", "e"]
