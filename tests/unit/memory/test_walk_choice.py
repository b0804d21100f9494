"""Where the graph is walked from: from the best hits that are nodes; from names where somebody asks for it."""

import pytest

from pentad.shared.graph.traversal import Reached
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.ranking import MemoryHit
from pentad.shared.memory.walk_choice import MOST_STARTS, WalkChoice, leaves_a_choice, requested_walk, walk_by_rule
from pentad.shared.memory.walks import scores_of
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Payload


def hit(name: str, score: float, kind: str = NODE_KIND, of: str = "fact", names: str = "") -> MemoryHit:
    details: dict[str, str | int | float | bool] = {"names": names} if names else {}
    payload = Payload(Owner("acme"), kind, of, "task-0-1", "s1", 0, 1, 0.5, "a", "words", details)
    return MemoryHit(name, payload, score, {})


SAID = hit("said", 0.9, SEGMENT_KIND, "user_message", "mimi solberg\ntromso")


def test_where_no_node_is_among_the_best_none_is_walked_from() -> None:
    assert walk_by_rule([]) is walk_by_rule([SAID]) is walk_by_rule([SAID, hit("far", 0.5)]) is None


def test_a_model_has_a_choice_where_the_rule_leaves_nodes_aside() -> None:
    near, far = hit("near", 0.9), hit("far", 0.3)
    for hits, choice in (([SAID], False), ([near, SAID], False), ([near, far], True), ([SAID, far], False)):
        assert leaves_a_choice(walk_by_rule(hits), hits) == choice


def test_the_closest_come_first_but_for_a_procedure() -> None:
    assert walk_by_rule([SAID, hit("fact", 0.8)]) == WalkChoice("astar", {"fact": 0.8})
    assert walk_by_rule([hit("steps", 0.8, of="procedure")]) == WalkChoice("dfs", {"steps": 0.8})


def test_starts_are_bounded() -> None:
    many = [hit(f"n{number}", 0.9) for number in range(50)]
    chosen = walk_by_rule(many)
    assert chosen is not None
    assert list(chosen.starts) == [f"n{number}" for number in range(MOST_STARTS)]
    names = hit("said", 0.9, SEGMENT_KIND, names="\n".join(f"name{number}" for number in range(900)))
    asked = requested_walk("bfs", 6, [names, *many])
    assert asked is not None
    assert (len(asked.starts), len(asked.names)) == (MOST_STARTS, 8)


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "astar"])
def test_who_names_a_strategy_walks_from_names_too(strategy: str) -> None:
    found = requested_walk(strategy, 3, [SAID, hit("fact", 0.8)])
    names = {"mimi solberg": 0.9, "tromso": 0.9}
    assert found == WalkChoice(strategy, {"fact": 0.8}, names, 3, by_rule=False)
    assert requested_walk(strategy, 3, []) == WalkChoice(strategy, {}, {}, 3, by_rule=False)


def test_a_rule_or_none_may_be_asked_for() -> None:
    hits = [SAID, hit("fact", 0.8)]
    assert requested_walk("auto", 6, hits) == walk_by_rule(hits)
    assert requested_walk("none", 6, hits) is None


def test_what_a_walk_comes_to_is_worth_less_with_each_step_of_its_own_start() -> None:
    reached = [
        Reached("a", 0, 0.0, None),
        Reached("b", 0, 0.0, None),
        Reached("c", 1, 0.5, "b"),
        Reached("d", 2, 1, "c"),
    ]
    scores = scores_of(reached, {"a": 0.9, "b": 0.5})
    assert scores["a"] == pytest.approx(0.81)
    assert scores["c"] == pytest.approx(0.9 * 0.5 / 1.5)
    assert scores["d"] == pytest.approx(0.9 * 0.5 / 2)
