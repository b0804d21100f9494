"""The scorecard of what a chaos run taught counts what is planted: lost, doubled, foreign, erased but found."""

import pytest

from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.owners import Owner
from tests.support.chaos.facts import (
    Fact,
    Place,
    Traced,
    counted,
    sentence_of,
    still_known,
    twice_in_graph,
    twice_in_memory,
)

SAID, OURS = "My velbatu is rodiken.", Owner("default", "ada")
FACT, ERASED = Fact(SAID, "ada"), Fact(SAID, "ada", erased=True)
HERE, THERE = Place("1", "task-1/0/0", SAID), Place("2", "task-2/0/0", SAID)
SUPPORT = Support("task-1/0/0", "task-1", "ada", 1)


def node(node_id: str, text: str, *supports: Support) -> MemoryNode:
    return MemoryNode(node_id, OURS, NodeKind.ENTITY, text, 0.5, 1, supports or (SUPPORT,))


def edge(*supports: Support) -> MemoryEdge:
    return MemoryEdge(OURS, "1", "2", EdgeType.PART_OF, 0.5, 1, supports or (SUPPORT,))


@pytest.mark.parametrize(
    ("traced", "figures"),
    [
        (Traced(FACT, (HERE,)), (1, 0, 0, 0, 0, 0)),
        (Traced(FACT), (1, 1, 0, 0, 0, 0)),
        (Traced(FACT, (Place("1", "task-1/0/0", ""),)), (1, 1, 0, 0, 0, 0)),
        (Traced(FACT, (Place("1", "task-1/0/0", "Something else."),)), (1, 1, 0, 0, 0, 0)),
        (Traced(FACT, (HERE, THERE)), (1, 0, 1, 0, 0, 0)),
        (Traced(FACT, (HERE, HERE)), (1, 0, 1, 0, 0, 0)),
        (Traced(FACT, (HERE,), to_others=("1",)), (1, 0, 0, 1, 0, 0)),
        (Traced(Fact(SAID, session="s1"), (HERE,), to_others=("1",)), (1, 0, 0, 1, 0, 0)),
        (Traced(ERASED), (0, 0, 0, 0, 1, 0)),
        (Traced(ERASED, (HERE,)), (0, 0, 0, 0, 1, 1)),
        (Traced(ERASED, known=(HERE,)), (0, 0, 0, 0, 1, 1)),
        (Traced(ERASED, to_others=("1",)), (0, 0, 0, 0, 1, 1)),
    ],
    ids=[
        "found once",
        "not found",
        "its anchor opens nothing",
        "its anchor opens something else",
        "found in two tasks",
        "found twice under one id",
        "shown to another user",
        "its session's, shown to another",
        "erased",
        "erased, and found by its owner",
        "erased, and known",
        "erased, and found by another",
    ],
)
def test_each_fault_is_counted_as_what_it_is_and_told(traced: Traced, figures: tuple[int, ...]) -> None:
    found = counted([traced])
    assert (
        found.taught,
        found.lost,
        found.doubled,
        found.of_others,
        found.erased,
        found.erased_but_found,
    ) == figures
    assert len(found.faults) == found.lost + found.doubled + found.of_others + found.erased_but_found
    assert all(SAID in fault for fault in found.faults)


@pytest.mark.parametrize(
    ("known", "lost", "doubled"),
    [((HERE,), 0, 0), ((), 1, 0), ((Place("1", "task-1/0/0", ""),), 1, 0), ((HERE, THERE), 0, 1)],
    ids=["known once", "not known", "its anchor opens nothing", "known twice"],
)
def test_what_was_learned_is_counted_too(known: tuple[Place, ...], lost: int, doubled: int) -> None:
    found = counted([Traced(FACT, (HERE,), known)], learned=True)
    assert (found.taught, found.lost, found.doubled) == (1, lost, doubled)
    assert counted([Traced(FACT, (HERE,))]).faults == (), "where nothing is learned, nothing is missing"


def test_the_scorecards_line_has_the_sums() -> None:
    found = counted(
        [Traced(FACT, (HERE, THERE), to_others=("1",)), Traced(FACT), Traced(ERASED, (HERE,)), Traced(ERASED)]
    )
    assert found.line() == "facts taught 2, lost 1, doubled 1, of others 1; erased 2, erased but found 1"


def test_a_segment_under_two_ids_is_twice_in_memory() -> None:
    assert twice_in_memory(["a", "b"]) == []
    assert twice_in_memory(["a", "b", "a"]) == ["the segment at a is kept 2 times"]


def test_nodes_edges_and_statements_that_are_there_twice_are_told() -> None:
    other = Support("task-2/0/0", "task-2", "ada", 1)
    assert twice_in_graph([node("1", "Ada"), node("2", "Bergen", SUPPORT, other)], [edge(SUPPORT, other)]) == []
    assert len(twice_in_graph([node("1", "Ada"), node("2", "ADA")], [])) == 1, "two nodes of one name"
    assert len(twice_in_graph([], [edge(), edge(other)])) == 1, "two edges of one type between the same nodes"
    assert len(twice_in_graph([node("1", "Ada", SUPPORT, SUPPORT)], [])) == 1, "one statement counts twice"


def test_what_rests_on_an_erased_task_is_told() -> None:
    assert still_known([node("1", "Ada")], [edge()], {"task-2"}) == []
    assert len(still_known([node("1", "Ada")], [edge()], {"task-1"})) == 2


def test_every_number_has_a_sentence_of_its_own() -> None:
    assert len({sentence_of(number) for number in range(5000)}) == 5000
    assert all(sentence_of(number).count(" ") == 3 for number in range(100))
