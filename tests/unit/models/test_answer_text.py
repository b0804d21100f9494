"""Texts that a server cuts within a character, or sends again with each piece, come out as they were meant."""

import pytest

from pentad.shared.models.answer_text import AnswerText, CharacterJoiner
from pentad.shared.models.assembly import Assembly
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
        (["\udcc3", "\udca9"], "é"),
        (["a\udcf0\udc9f", "\udc98", "\udc80b"], "a😀b"),
        (["\udcff\udcc3", "x"], "??x"),
        (["\udce4\udcbd"], "?"),
    ],
)
def test_halves_that_meet_are_a_character_and_others_are_lost(pieces: list[str], text: str) -> None:
    joiner = CharacterJoiner()
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


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["He", "Hello", "Hello wor", "Hello world"], "Hello world"),
        (["He", "Hello", "Hello!"], "Hello!"),
        (["It is a very long way", "It is a very long way to go"], "It is a very long way to go"),
        (["He", "Hello", "Hello world!", "Hello world!", " And more"], "Hello world! And more"),
        (["1", "12"], "112"),
        (["ha", "ha", "ha"], "hahaha"),
        (["1", "12", "3"], "1123"),
        (["\n", "\n\n", "Hi"], "\n\n\nHi"),
        (["", "a"], "a"),
    ],
)
def test_a_text_that_comes_again_with_each_piece_is_said_once_and_chance_loses_nothing(
    pieces: list[str], text: str
) -> None:
    joiner = AnswerText()
    assert "".join(map(joiner.add, pieces)) + joiner.rest() == text


@pytest.mark.parametrize(
    "delta",
    [
        '{"tool_calls":[{"function":{"name":"f","arguments":"%s"}}]}',
        '{"tool_calls":[{"name":"f","arguments":"%s"}]}',
        '{"function_call":{"name":"f","arguments":"%s"}}',
    ],
)
def test_a_character_that_is_cut_within_arguments_is_whole_again(delta: str) -> None:
    assembly = Assembly(lambda _, text: None)
    for piece in ('{\\"a\\":\\"\\ud83d', '\\ude00\\"}'):
        event = '{"choices":[{"delta":%s}]}' % (delta % piece)
        assembly.add(parse_object(event.encode(), with_halves=True))
    (call,) = assembly.answer("m").tool_calls
    assert call.arguments == '{"a":"😀"}'
