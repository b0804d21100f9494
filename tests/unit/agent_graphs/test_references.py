"""What a graph names and nobody knows is told with its place, and a graph that would run itself."""

import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.references import KnownNames, recursion_of, reference_problems, tools_of, unknown_tools
from tests.unit.agent_graphs.graphs import everything, runs


def known(*graphs: GraphSpec, instructions: str = "planner", models: str = "fast") -> KnownNames:
    return KnownNames(instructions.split(), models.split(), {each.name: each for each in graphs})


def test_a_graph_whose_names_are_all_known_has_no_problem() -> None:
    assert reference_problems(everything(), known(runs("visit_city"))) == []


def test_each_unknown_name_is_told_with_its_place() -> None:
    assert reference_problems(everything(), known(instructions="", models="")) == [
        "nodes[0] (plan).instruction: there is no instruction 'planner'",
        "nodes[3] (think).model: there is no chat model 'fast': register it first",
        "nodes[5] (visit).graph: there is no graph 'visit_city'",
    ]


def test_a_name_of_the_other_kind_is_told_with_the_kind_that_it_needs() -> None:
    told = reference_problems(everything(), known(runs("planner"), instructions="visit_city"))
    assert told == [
        "nodes[0] (plan).instruction: 'planner' is a graph: write kind \"graph\"",
        "nodes[5] (visit).graph: 'visit_city' is an instruction: write kind \"llm\" and instruction",
    ]


def test_tools_that_no_worker_has_are_named_with_their_places() -> None:
    assert unknown_tools(everything(), {"calculator", "look_up", "is_complete"}) == []
    assert unknown_tools(everything(), set()) == [
        "nodes[2] (look).tool: no worker has a tool 'look_up' now",
        "nodes[3] (think).tools: no worker has a tool 'calculator' now",
        "edges[3].check: no worker has a tool 'is_complete' now",
    ]
    assert tools_of(everything()) == ["calculator", "look_up", "is_complete"]


@pytest.mark.parametrize(
    ("graph", "others", "way"),
    [
        (runs("a", "a"), [], ["a", "a"]),
        (runs("a", "b"), [runs("b", "a")], ["a", "b", "a"]),
        (runs("a", "x", "b"), [runs("x"), runs("b", "x", "c"), runs("c", "a")], ["a", "b", "c", "a"]),
        (runs("a", "b", "c"), [runs("b", "d"), runs("c", "d"), runs("d")], None),
        (runs("a", "b"), [runs("b", "c"), runs("c", "b")], None),
        (runs("a", "gone"), [runs("a", "a")], None),
    ],
    ids=["itself", "two", "three", "twice the same", "a recursion of others", "its own old form"],
)
def test_a_graph_that_would_run_itself_is_found_with_the_way(
    graph: GraphSpec, others: list[GraphSpec], way: list[str] | None
) -> None:
    assert recursion_of(graph, {each.name: each for each in others}) == way


def test_a_long_recursion_is_found_without_depth_and_told_in_few_words() -> None:
    others = [runs(f"g{number}", f"g{number + 1}") for number in range(1, 5_000)]
    told = reference_problems(runs("g0", "g1"), known(*others, runs("g5000", "g0")))
    assert told == ["nodes[0] (n0).graph: the graph would run itself: g0 -> g1 -> g2 -> g3 -> g4 -> g5 -> ... -> g0"]
