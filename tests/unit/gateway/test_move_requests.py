"""Whether a message may be moved, and what a client hears when not."""

from dataclasses import replace
from typing import Any

import pytest

from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.domain.move import (
    Destination,
    MoveRequest,
    UnmovableError,
    Whereabouts,
    check_destination,
    in_transcript,
    is_repeat,
    read_move,
)
from pentad.shared.actors.headers import TaskHeader

SOURCE = TaskHeader("default", "task-0-a", "s1", "active")
OTHER = TaskHeader("default", "task-0-b", "s1", "completed")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message_id": "m1"},
        {"to": "new"},
        {"message_id": 7, "to": "new"},
        {"message_id": "m1", "to": None},
        {"message_id": "m1", "to": ["new"]},
        {"message_id": "m 1", "to": "new"},
        {"message_id": "m1", "to": "x" * 129},
        {"message_id": "m1\n", "to": "new"},
    ],
)
def test_a_move_that_cannot_be_read_says_what_is_wrong(body: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match="expected"):
        read_move(body)


def test_a_move_is_read() -> None:
    assert read_move({"type": "move", "message_id": "m1", "to": "new"}) == MoveRequest("m1", "new")


@pytest.mark.parametrize(
    ("to", "found", "why"),
    [
        ("task-0-a", Destination(SOURCE), "already"),
        ("task-0-b", Destination(archived=True), "archived"),
        ("task-0-b", Destination(), "unknown"),
        ("task-0-b", Destination(replace(OTHER, session="s2")), "another session"),
        ("task-0-b", Destination(replace(OTHER, status="cancelled")), "cancelled"),
    ],
)
def test_a_task_that_cannot_take_it_is_refused_with_the_reason(to: str, found: Destination, why: str) -> None:
    with pytest.raises(UnmovableError, match=why):
        check_destination(SOURCE, to, found)


@pytest.mark.parametrize("status", ["active", "waiting", "completed", "failed"])
def test_a_live_or_ended_task_can_take_it(status: Any) -> None:
    check_destination(SOURCE, "task-0-b", Destination(replace(OTHER, status=status)))


@pytest.mark.parametrize("to", ["new", "task-0-c"])
def test_a_move_that_is_done_is_known(to: str) -> None:
    assert is_repeat(MoveRequest("m1", to), "task-0-a", Whereabouts(moved_to=("new", "task-0-c")))
    assert not is_repeat(MoveRequest("m1", to), "task-0-a", Whereabouts(7))
    with pytest.raises(UnmovableError, match="from task task-0-b"):
        is_repeat(MoveRequest("m1", to), "task-0-a", Whereabouts(moved_to=("task-0-b", "task-0-b")))


SAID = {"role": "user", "message_id": "m1"}
AWAY = {"role": "exclusion", "message_id": "m1", "to": "new", "to_task_id": "task-0-c", "positions": [0]}


def test_the_newest_word_of_a_transcript_counts() -> None:
    assert in_transcript([SAID], "m1") == Whereabouts()
    assert in_transcript([AWAY, SAID], "m1") == Whereabouts(moved_to=("new", "task-0-c"))
    assert in_transcript([SAID, AWAY, SAID], "m1") == Whereabouts()
    assert in_transcript([SAID | {"origin": "context"}, {"role": "tool", "content": "m1"}], "m1") is None
