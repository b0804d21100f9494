"""What a person sees of a streamed answer: overlaps, gaps, withdrawn attempts."""

from typing import Any

import pytest

from pentad.client.text import Piece, Shown, TurnText, show
from pentad.contracts.events import Content, MessageEvent, Snapshot


def about(step: int, attempt: int, task: str) -> dict[str, Any]:
    return {"event_id": "e", "at": "", "tenant_id": "t", "session_id": "s", "task_id": task} | {
        "step": step,
        "attempt": attempt,
    }


def delta(offset: int, content: str, attempt: int = 1, step: int = 1, task: str = "a") -> Content:
    return Content(offset=offset, content=content, **about(step, attempt, task))


def whole(content: str, attempt: int = 1, step: int = 1, task: str = "a") -> MessageEvent:
    return MessageEvent(content=content, **about(step, attempt, task))


def r(text: str) -> Piece:
    return Piece(text, restart=True)


TABLE: list[tuple[str, list[Content | MessageEvent], list[Piece | str]]] = [
    ("in order", [delta(0, "Hel"), delta(3, "lo"), whole("Hello")], ["Hel", "lo", ""]),
    ("message alone", [whole("Hello")], ["Hello"]),
    ("message heals the tail", [delta(0, "Hel"), whole("Hello")], ["Hel", "lo"]),
    ("message heals a gap", [delta(0, "H"), delta(3, "lo"), whole("Hello")], ["H", "", "ello"]),
    ("repeat", [delta(0, "Hel"), delta(0, "Hel"), delta(3, "lo")], ["Hel", "", "lo"]),
    ("overlap", [delta(0, "Hel"), delta(1, "ello")], ["Hel", "lo"]),
    ("void attempt", [delta(0, "Hi"), delta(0, "Bye", 2), whole("Bye", 2)], ["Hi", r("Bye"), ""]),
    ("void attempt, same words", [delta(0, "Hi"), delta(0, "Hi", 2)], ["Hi", r("Hi")]),
    (
        "void attempt known by a delta beyond a gap",
        [delta(0, "Hi"), delta(2, "e", 2), whole("Bye", 2)],
        ["Hi", r(""), "Bye"],
    ),
    ("void attempt known by the message", [delta(0, "Hi"), whole("Bye", 2)], ["Hi", r("Bye")]),
    ("nothing shown, nothing withdrawn", [delta(0, "", 1), delta(0, "Bye", 2)], ["", "Bye"]),
    ("zombie", [delta(0, "Bye", 2), delta(0, "Hi", 1), delta(3, "!", 2)], ["Bye", "", "!"]),
    ("late delta after the message", [whole("Hello"), delta(0, "Hel"), delta(0, "Hi", 2)], ["Hello", "", ""]),
    ("message unlike its deltas", [delta(0, "Hi"), whole("Bye")], ["Hi", r("Bye")]),
    ("next step", [whole("One"), delta(0, "Two", step=2)], ["One", "Two"]),
    ("late delta of an earlier step", [delta(0, "Two", step=2), delta(0, "One")], ["Two", ""]),
    ("another task begins at step 1", [whole("One", step=5), delta(0, "Two", task="b")], ["One", "Two"]),
    ("characters, not bytes", [delta(0, "héé"), delta(3, "\U0001f600"), delta(4, "x")], ["héé", "\U0001f600", "x"]),
]


@pytest.mark.parametrize(("events", "pieces"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_screen_shows_each_character_once_and_no_void_attempt(
    events: list[Content | MessageEvent], pieces: list[Piece | str]
) -> None:
    shown, seen = Shown(), []
    for event in events:
        shown, piece = show(shown, event)
        seen.append(piece)
    assert seen == [Piece(piece) if isinstance(piece, str) else piece for piece in pieces]


def test_a_void_attempt_begins_with_its_own_number() -> None:
    shown, _ = show(Shown(), delta(0, "Hi", attempt=3))
    assert show(shown, delta(0, "Bye", attempt=4))[1] == r("Bye")


def test_the_text_of_a_turn_is_that_of_its_steps_without_what_was_taken_back() -> None:
    text = TurnText()
    events = (
        delta(0, "Let me see."),
        whole("Let me see."),
        delta(0, "It is 4", step=2),
        delta(0, "Hello", task="b"),
        delta(0, "It", attempt=2, step=2),
        delta(2, " is 42.", attempt=2, step=2),
        whole("It is 42.", attempt=2, step=2),
    )
    seen = [str(text) for event in events if text.add(event, "a")]
    assert seen == [
        "Let me see.",
        "Let me see.\n\nIt is 4",
        "Let me see.\n\nIt is 4\n\nHello",
        "Let me see.\n\nIt\n\nHello",
        "Let me see.\n\nIt is 42.\n\nHello",
    ]


def test_where_events_were_lost_the_text_is_the_answer_of_the_snapshot() -> None:
    text = TurnText()
    assert text.add(delta(0, "It is 4"), "a")
    said = {"role": "assistant", "task_id": "a", "content": "It is 42."}
    assert text.add(Snapshot(messages=[said], tasks=[], event_id="e", at="", tenant_id="t", session_id="s"), "a")
    assert str(text) == "It is 42."
