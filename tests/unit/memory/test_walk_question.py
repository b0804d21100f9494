"""What a model says about a walk is taken as far as it was shown it; whatever else it says is refused."""

import json
from typing import Any

import pytest

from pentad.shared.memory.walk_choice import (
    MOST_SHOWN,
    WalkAnswer,
    answer_bytes,
    chosen_by_model,
    kept_answer,
    nodes_shown,
    walk_answer,
    walk_question,
)
from tests.unit.memory.test_walk_choice import SAID, hit
from tests.unit.segments.transcripts import HOSTILE

SHOWN = [hit("first", 0.9), hit("second", 0.8)]


def test_it_is_shown_the_best_nodes_by_number_and_bounded() -> None:
    many = [SAID, *(hit(f"n{number}", 0.5) for number in range(50))]
    assert [each.id for each in nodes_shown(many)] == [f"n{number}" for number in range(MOST_SHOWN)]
    asked = json.loads(walk_question(["When?", "And where?"], nodes_shown(many)))
    assert (asked["question"], asked["known"][0]) == (
        "When?\nAnd where?",
        {"id": "k1", "kind": "fact", "text": "words"},
    )
    for text in HOSTILE:
        assert len(walk_question([text], nodes_shown(many)).encode()) < 20_000


def test_what_it_names_is_what_is_walked_from() -> None:
    answer = walk_answer({"strategy": "bfs", "start_nodes": ["k2", "k9", "k2", "first"]}, SHOWN)
    assert answer == WalkAnswer("bfs", ("second",))
    chosen = chosen_by_model(answer, SHOWN)
    assert chosen is not None
    assert chosen.choice is not None
    assert (chosen.choice.strategy, chosen.choice.starts, chosen.choice.by_rule) == ("bfs", {"second": 0.9}, True)
    assert chosen.told is not None
    assert (chosen.told.by, chosen.told.starts) == ("memory_retriever", ["second"])
    assert chosen_by_model(answer, SHOWN[:1]) is None, "it is not found any more"


def test_it_may_want_no_walk() -> None:
    chosen = chosen_by_model(walk_answer({"strategy": "none", "start_nodes": []}, SHOWN), SHOWN)
    assert chosen is not None
    assert (chosen.choice, chosen.told and chosen.told.strategy) == (None, "none")


@pytest.mark.parametrize(
    "value",
    [
        None, [], 7, "bfs", {}, {"strategy": "bfs"}, {"strategy": "dijkstra", "start_nodes": ["k1"]},
        {"strategy": ["bfs"], "start_nodes": ["k1"]}, {"strategy": "bfs", "start_nodes": []},
        {"strategy": "bfs", "start_nodes": ["k3", 1, None, {}, "\x00"]}, {"strategy": "bfs", "start_nodes": "k1"},
        {"strategy": "bfs", "start_nodes": {"k1": 1}},
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"is to be|nothing that was shown"):
        walk_answer(value, SHOWN)


def test_what_was_kept_is_read_again_and_what_is_none_is_not() -> None:
    for answer in (WalkAnswer("dfs", ("a", "b")), WalkAnswer("none", ())):
        assert kept_answer(answer_bytes(answer, ["hi"]), ["hi"]) == answer
        assert kept_answer(answer_bytes(answer, ["hi"]), ["ho"]) is None, "it is about another message"
    for kept in (
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"7",
        b'{"strategy":"bfs","starts":["a"]}',
        b'{"strategy":"bfs","starts":[]}',
        b'{"strategy":"bfs","starts":[1]}',
    ):
        assert kept_answer(kept, ["hi"]) is None
