"""A moved message as an evaluation case: what its session's tasks had said by then, and where it belongs."""

from typing import Any

import pytest

from pentad.services.gateway.domain.eval_case import (
    MOST_CHARS,
    MOST_TURNS,
    MovedMessage,
    case_of,
    labelled,
    lines_before,
)

MOVED = MovedMessage("m3", "for five people", "2030-01-31T12:00:03.000Z")


def line(role: str, content: str, second: int, **more: Any) -> dict[str, Any]:
    steps = {"step": 1} if role == "assistant" else {}
    return {"role": role, "content": content, "at": f"2030-01-31T12:00:{second:02}.000Z", **steps, **more}


def made(to: str, **transcripts: list[dict[str, Any]]) -> Any:
    said = {task: lines_before(MOVED, lines) for task, lines in transcripts.items()}
    return case_of("name", MOVED, to, said, {"session_id": "s"})


FLIGHT = [line("user", "a flight to Lisbon", 0, message_id="m1"), line("assistant", "From where?", 1)]
TABLE = [line("user", "a table for dinner", 2, message_id="m2"), line("assistant", "For how many?", 2)]
WRONG = [*FLIGHT, line("user", "for five people", 3, message_id="m3"), line("assistant", "A big plane.", 4)]


def test_the_tasks_are_as_they_were_when_the_message_came() -> None:
    later = [*TABLE, line("user", "at eight", 7, message_id="m4")]
    case = made("table", flight=WRONG, table=later)
    assert (case["gold"], case["kind"], case["lang"], case["message"]) == ("table", "continue", "en", MOVED.content)
    first, second = case["tasks"]
    assert [(task["id"], task["last_active_rank"]) for task in (first, second)] == [("table", 0), ("flight", 1)]
    assert second["messages"] == [
        {"role": "user", "text": "a flight to Lisbon"},
        {"role": "assistant", "text": "From where?"},
    ]
    assert first["goal"] == "a table for dinner"
    assert case["provenance"] == {"session_id": "s"}


@pytest.mark.parametrize(
    ("to", "gold", "kind"),
    [("flight", "flight", "switch"), ("new", "new", "new"), ("later", "new", "new"), ("unknown", "new", "new")],
)
def test_a_task_that_began_later_was_a_new_one_then(to: str, gold: str, kind: str) -> None:
    later = [line("user", "something else", 9, message_id="m9")]
    case = made(to, flight=FLIGHT, table=TABLE, later=later)
    assert (case["gold"], case["kind"], len(case["tasks"])) == (gold, kind, 2)


def test_where_nothing_could_be_chosen_there_is_no_case() -> None:
    assert made("new", only=[line("user", "for five people", 3, message_id="m3")]) is None
    assert made("new") is None


def test_only_what_was_said_counts_and_nothing_that_was_moved_away() -> None:
    noise = [
        line("user", "said before", 0, origin="context"),
        line("user", "hi", 0, message_id="m1"),
        line("assistant", "gone", 0),
        line("tool", "42", 0),
        {"role": "assistant", "content": None, "tool_calls": [], "step": 1, "at": "2030"},
        {"problem": "this message cannot be read"},
        line("user", "again, as JSON", 1, origin="repair"),
        {"role": "exclusion", "positions": [2], "message_id": "m0", "at": "2030-01-31T12:00:01.000Z"},
        line("user", "and?", 2, message_id="m2"),
    ]
    (task,) = made("new", a=noise)["tasks"]
    assert [turn["text"] for turn in task["messages"]] == ["hi", "and?"]


def test_a_case_has_a_bound() -> None:
    long = [line(("user", "assistant")[n % 2], "漢" * 60_000, 1) for n in range(200)]
    moved = MovedMessage("m", "字" * 65_536, MOVED.at)
    case = case_of("n", moved, "new", {"a": lines_before(moved, [*FLIGHT, *long])}, {})
    assert case is not None
    (task,) = case["tasks"]
    assert len(task["messages"]) == MOST_TURNS
    assert task["messages"][0]["text"] == "a flight to Lisbon"
    assert max(len(turn["text"]) for turn in task["messages"]) <= MOST_CHARS
    assert (len(case["message"]), case["lang"]) == (MOST_CHARS, "zh")


def test_the_last_word_on_a_message_counts() -> None:
    case = made("new", flight=FLIGHT, table=TABLE)
    again = labelled(case, "flight")
    assert (again["gold"], again["kind"], again["tasks"]) == ("flight", "switch", case["tasks"])
    with pytest.raises(KeyError):
        labelled({}, "new")
