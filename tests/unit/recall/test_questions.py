"""A question is read: whom it names, whether it asks for a time, what is left of it to search for."""

import pytest

from pentad.shared.recall.cues import (
    MOST_ASKING_CHARS,
    asks,
    asks_what_was_answered,
    asks_when,
    ends_asking,
    has_standing_wish,
    names_time,
    only_asks,
)
from pentad.shared.recall.questions import MOST_PARTICIPANTS, MOST_TERMS, read_question
from tests.unit.segments.transcripts import HOSTILE

PEOPLE = ("Caroline", "Mary Ann", "小明", "Strauß", "user", "assistant")


@pytest.mark.parametrize(
    ("asked", "text", "speakers"),
    [
        ("What did Caroline research?", "What did research?", {"Caroline"}),
        ("What is caroline's job?", "What is job?", {"Caroline"}),
        ("Did Mary Ann meet Caroline’s son?", "Did meet son?", {"Mary Ann", "Caroline"}),
        ("Where does Mary live?", "Where does live?", {"Mary Ann"}),
        ("小明喜欢什么动物？", "喜欢什么动物？", {"小明"}),
        ("Caroline喜欢什么？", "喜欢什么？", {"Caroline"}),
        ("Ist Strauß da?", "Ist da?", {"Strauß"}),
        ("Who lives in Carolinesville?", "Who lives in Carolinesville?", set()),
        ("How many users did the assistant name?", "How many users did the assistant name?", set()),
    ],
)
def test_names_of_participants_are_taken_out_and_remembered(asked: str, text: str, speakers: set[str]) -> None:
    read = read_question(asked, PEOPLE)
    assert (read.text, set(read.speakers)) == (text, speakers)
    assert not set(read.terms) & set(read_question("Caroline").terms)


def test_a_letter_that_matches_only_without_its_case_is_no_name() -> None:
    assert read_question("Who is M\u0130mi?", ["Mimi"]).speakers == frozenset()


def test_a_question_that_is_only_a_name_is_searched_for_as_it_is() -> None:
    read = read_question("Caroline?", PEOPLE)
    assert (read.text, set(read.speakers)) == ("Caroline?", {"Caroline"})
    assert read.terms


@pytest.mark.parametrize(
    ("asked", "mine"), [("What is my cat called?", True), ("我的猫叫什么", True), ("Is Mimi his?", False)]
)
def test_the_first_person_asks_about_the_user(asked: str, mine: bool) -> None:
    assert read_question(asked).of_user is mine


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("What did you recommend for my garden?", True),
        ("Remind me of the three names you suggested", True),
        ("你上次给我推荐了哪本书？", True),
        ("你推荐过什么", True),
        ("Could you show me my notes?", False),
        ("What would you suggest for my garden?", False),
        ("你能帮我推荐一本书吗？", False),
    ],
)
def test_a_question_about_an_answer_is_not_about_the_users_own_words(asked: str, answered: bool) -> None:
    assert asks_what_was_answered(asked) is answered
    assert read_question(asked).of_user is not answered


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("Always answer in French.", True),
        ("Thanks! And never use tabs, please", True),
        ("From now on, call me Ada", True),
        ("I’d prefer the window seat", True),
        ("I really prefer tea", True),
        ("以后都用中文回答", True),
        ("我更喜欢靠窗的座位", True),
        ("She has always lived in Bergen", False),
        ("I was never there", False),
        ("Which do you prefer?", False),
        ("我昨天去了里斯本", False),
    ],
)
def test_what_somebody_always_wants_or_prefers_is_known_from_what_just_happened(text: str, wishes: bool) -> None:
    assert has_standing_wish(text) is wishes


def test_a_long_text_that_ends_with_a_question_says_something_besides() -> None:
    told = "I keep two cats and a boat in Bergen. " * 5
    assert only_asks("Where is my boat?")
    assert not only_asks("My boat is in Bergen.")
    assert len(told) > MOST_ASKING_CHARS
    assert not only_asks(f"{told}Can you help?")
    assert ends_asking(f"{told}Can you help?")


def test_words_that_any_request_has_count_less_than_its_subject() -> None:
    asked = read_question("Please explain different ferries to Bergen")
    assert sorted(asked.terms.values()) == [0.5, 0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    "asked", ["When did she move?", "Which year was it?", "how long ago", "什么时候搬家的？", "哪天出发"]
)
def test_a_question_for_a_time_is_known(asked: str) -> None:
    assert asks_when(asked)
    assert read_question(asked).when


@pytest.mark.parametrize(
    "text", ["last week", "on May 7th", "in 2019", "two years ago", "昨天", "去年夏天", "3月5日", "下周一"]
)
def test_a_text_that_says_a_time_is_known(text: str) -> None:
    assert names_time(f"We met {text}.")


@pytest.mark.parametrize("text", ["What a view!", "It is whenever.", "那是一只猫", "He may come"])
def test_other_texts_neither_ask_for_a_time_nor_say_one(text: str) -> None:
    assert not asks_when(text)
    assert not names_time(text)


@pytest.mark.parametrize(
    ("text", "any_question", "at_end"),
    [
        ("Really?", True, True),
        ("Why? I see.", True, False),
        ("你呢", True, True),
        ("好吗？ ", True, True),
        ("No.", False, False),
    ],
)
def test_questions_are_known(text: str, any_question: bool, at_end: bool) -> None:
    assert (asks(text), ends_asking(text)) == (any_question, at_end)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_questions_are_read_bounded(text: str) -> None:
    names = [text[:60], text, *(f"{text[:20]}{n}" for n in range(200))]
    read = read_question(text, names)
    assert len(read.terms) <= MOST_TERMS
    assert len(read.speakers) <= MOST_PARTICIPANTS
    assert len(read.text) <= len(text)
    assert read == read_question(text, names)
