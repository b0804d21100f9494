"""Characters that a server cuts in two are whole again when both halves have come."""

import pytest

from pentad.shared.models.assembly import Assembly
from pentad.shared.models.half_characters import HalfJoiner
from pentad.shared.models.loose_values import parse_object


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["\ud83d", "", "\ude00"], "😀"),
        (["\ud83d", "x"], "?x"),
        (["\ude00", "\ud83d"], "??"),
        (["\ud83d\ude00\ud83d", "\ude00"], "😀😀"),
        (["\ud83d", "\ud83d", "\ude00"], "?😀"),
        (["é", "中"], "é中"),
    ],
)
def test_halves_that_meet_are_a_character_and_others_are_lost(pieces: list[str], text: str) -> None:
    joiner = HalfJoiner()
    assert "".join(map(joiner.add, pieces)) + joiner.rest() == text


def test_only_texts_of_the_answer_keep_halves() -> None:
    event = b'{"id":"a\\ud83d","choices":[{"delta":{"content":"b\\ud83d","role":"\\ud83d"}}]}'
    read = parse_object(event, with_halves=True)
    assert (read["id"], read["choices"][0]["delta"]) == ("a?", {"content": "b\ud83d", "role": "?"})
    assert parse_object(event)["choices"][0]["delta"]["content"] == "b?"
    assert parse_object(b'{"choices":7,"a":"\\ud83d"}', with_halves=True) == {"choices": 7, "a": "?"}


def test_an_answer_whose_last_half_never_comes_says_so() -> None:
    shown: list[str] = []
    assembly = Assembly(lambda _, text: shown.append(text))
    assembly.add(parse_object(b'{"choices":[{"delta":{"content":"Hi \\ud83d"}}]}', with_halves=True))
    assert (assembly.answer("m").text, "".join(shown)) == ("Hi ?", "Hi ?")
