"""The shape of what is said is read from words that are used about anything, in English and Chinese."""

import time

import pytest

from pentad.shared.digests.cues import Asked, Cues, asked_by, cues_of, says_goodbye
from pentad.shared.digests.wording import clean
from tests.unit.digests.test_wording import HOSTILE


def cues(text: str) -> Cues:
    return cues_of(clean(text))


@pytest.mark.parametrize(
    "text",
    [
        "I need a plumber",
        "Can you draft a letter?",
        "My lease ends, so I want to move",
        "also, translate this",
        "帮我写一封信",
        "我想学法语",
        "推荐一部电影",
    ],
)
def test_an_opener_asks_for_something_to_be_done(text: str) -> None:
    assert cues(text).opener


@pytest.mark.parametrize("text", ["The blue one.", "Thursday at 11", "那个太贵", "在北京"])
def test_what_answers_is_no_opener(text: str) -> None:
    assert not cues(text).opener


@pytest.mark.parametrize(
    "text", ["Yes.", "no thanks", "Sounds good", "the second one", "好的", "嗯，可以", "and Beijing?"]
)
def test_a_reply_begins_as_one(text: str) -> None:
    assert cues(text).reply


@pytest.mark.parametrize("text", ["is there another?", "What about it", "它多少钱", "换个便宜的", "附近呢"])
def test_what_refers_back_is_seen(text: str) -> None:
    assert cues(text).refers


@pytest.mark.parametrize(("text", "farewell"), [
    ("Thank you, bye!", True),
    ("谢谢，再见", True),
    ("That's all for now", True),
    ("Thanks, but now I would like to talk about the other flight that we found yesterday, the cheap one", False),
    ("Book it", False),
])  # fmt: skip
def test_a_farewell_is_short(text: str, farewell: bool) -> None:
    assert cues(text).farewell is farewell


@pytest.mark.parametrize(("text", "greeting"), [("Hello there", True), ("你好！", True), ("the hello page", False)])
def test_a_greeting_stands_at_the_beginning(text: str, greeting: bool) -> None:
    assert cues(text).greeting is greeting


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("I can book it. What time do you want to go?", "time"),
        ("您想几点去？", "time"),
        ("How many people are there?", "number"),
        ("一共几位？", "number"),
        ("In which city?", "place"),
        ("您在哪里？", "place"),
        ("Shall I buy the tickets? ", "confirm"),
        ("这样可以吗？", "confirm"),
        ("What kind of food?", "open"),
        ("It is booked.", ""),
        ("好的，已经订好。", ""),
        ("", ""),
    ],
)
def test_the_kind_of_a_question_is_read_at_the_end_of_an_answer(answer: str, asked: Asked) -> None:
    assert asked_by(answer) == asked
    assert asked_by("A long story that ends. " * 5_000 + answer) == asked


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("tomorrow at 5 pm", "time"), ("周六上午", "time"), ("42", "number"), ("两个人", "number")),
        *(("from Paris", "place"), ("在北京", "place"), ("yes", "confirm"), ("好的", "confirm")),
    ],
)
def test_a_message_gives_what_a_question_may_ask_for(text: str, kind: Asked) -> None:
    assert cues(text).gives(kind)


@pytest.mark.parametrize(
    ("text", "goodbye"), [("You're welcome!", True), ("不客气", True), ("You're welcome. " * 9, False)]
)
def test_an_answer_that_says_goodbye_is_short(text: str, goodbye: bool) -> None:
    assert says_goodbye(clean(text)) is goodbye


@pytest.mark.parametrize(
    "text", [*HOSTILE, "ok ok, " * 9_000, "have a " * 9_000, "is " * 20_000, "so and but " * 6_000]
)
def test_no_text_takes_long(text: str) -> None:
    begun = time.process_time()
    cues(text)
    asked_by(text)
    assert time.process_time() - begun < 0.25  # some milliseconds; what grows with the square takes seconds


@pytest.mark.parametrize("text", ["what time is it", "What day is it in Lima?", "hello"])
def test_what_speaks_of_nothing_known_refers_to_nothing(text: str) -> None:
    assert not cues(text).refers
