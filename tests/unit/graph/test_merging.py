"""How nodes and edges that are written again join: the same in every order."""

import random
from typing import Any

import pytest

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_limits import check_edges, check_nodes
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, Metadata
from pentad.shared.graph.merging import merged_edges, merged_nodes, normal_name
from pentad.shared.owners import Owner
from tests.support.graph_maker import edge, node, support

OURS = Owner("acme")


def test_the_older_text_stays_and_everything_else_is_added_up() -> None:
    old = node("a", OURS, support("1"), text="old", learned_at=1, importance=0.1, true_from=9)
    new = node("a", OURS, support("2"), text="new", learned_at=2, importance=0.7, true_from=3, true_until=5)
    for given in ([old, new], [new, old], [new, old, new]):
        [kept] = merged_nodes(given)
        assert (kept.text, kept.learned_at, kept.importance) == ("old", 1, 0.7)
        assert (kept.true_from, kept.true_until, len(kept.supports)) == (3, 5, 2)


def test_metadata_that_was_told_last_counts_whole() -> None:
    first, last, same = Metadata('{"a":1,"b":1}', 1), Metadata('{"a":2}', 2), Metadata('{"a":1}', 2)
    nodes = [node("a", OURS, metadata=told) for told in (None, first, last, same)]
    edges = [edge("a", "b", OURS, metadata=told) for told in (None, first, last, same)]
    for given in (nodes, nodes[::-1]):
        assert [each.metadata for each in merged_nodes(given)] == [last]
    for ways in (edges, edges[::-1]):
        assert [each.metadata for each in merged_edges(ways)] == [last]
    assert merged_nodes(nodes[:1])[0].metadata is None


def test_the_order_of_many_does_not_matter() -> None:
    chance = random.Random(3)
    nodes = [node("a", OURS, support(str(n)), text=str(n % 4), learned_at=n % 3) for n in range(12)]
    expected = merged_nodes(nodes)
    for _ in range(50):
        chance.shuffle(nodes)
        assert merged_nodes([*merged_nodes(nodes[:5]), *nodes[5:]]) == expected


def test_owners_directions_and_types_are_kept_apart() -> None:
    ada = Owner("acme", "ada")
    assert len(merged_nodes([node("a", OURS), node("a", Owner("other"))])) == 2
    assert len(merged_edges([edge("a", "b", OURS), edge("b", "a", OURS), edge("a", "b", ada)])) == 3


@pytest.mark.parametrize("name", ["New York", "  new\tyork ", "NEW  YORK", "Ｎｅｗ York"])
def test_ways_of_writing_a_name_are_one_name(name: str) -> None:
    assert normal_name(name) == "new york"


def test_a_name_has_a_bound() -> None:
    assert len(normal_name("x" * 10_000)) == 256


NODES: list[tuple[dict[str, Any], str]] = [
    ({"id": ""}, "printable"),
    ({"id": "a\x1fb"}, "printable"),
    ({"id": "x" * 129}, "printable"),
    ({"merged_into": ""}, "printable"),
    ({"text": " "}, "no text"),
    ({"text": "猫" * 11_000}, "32768"),
    ({"text": "\ud800"}, "UTF-8"),
    ({"importance": 1.1}, "0 to 1"),
    ({"importance": float("nan")}, "0 to 1"),
    ({"learned_at": -1}, "time"),
    ({"metadata": Metadata("{}", -1)}, "time"),
    ({"metadata": Metadata('{ "a":1}', 1)}, "node a: metadata: .* form"),
    ({"true_until": 1 << 60}, "time"),
    ({"true_from": 5, "true_until": 4}, "before it begins"),
    ({"supports": ()}, "0 statements"),
    ({"supports": (support("a"),) * 1001}, "1001 statements"),
    ({"supports": (support("\n"),)}, "printable"),
    ({"supports": (support("a", task="a|b"),)}, "identifier"),
    ({"supports": (support("a", user="a b"),)}, "identifier"),
    ({"supports": (support("a", at=-1),)}, "time"),
]


@pytest.mark.parametrize(("fields", "why"), NODES)
def test_a_bad_node_is_refused(fields: dict[str, Any], why: str) -> None:
    good = {"owner": OURS, "kind": "fact", "text": "t", "importance": 0.5, "learned_at": 1, "supports": (support("a"),)}
    with pytest.raises(MemoryRefusedError, match=why):
        check_nodes([MemoryNode(**{"id": "a", **good, **fields})])


EDGES: list[tuple[dict[str, Any], str]] = [
    ({"target": "a"}, "leads nowhere"),
    ({"source": "\n"}, "printable"),
    ({"weight": -0.1}, "0 to 1"),
    ({"weight": float("inf")}, "0 to 1"),
    ({"supports": ()}, "0 statements"),
]


@pytest.mark.parametrize(("fields", "why"), EDGES)
def test_a_bad_edge_is_refused(fields: dict[str, Any], why: str) -> None:
    good = {"owner": OURS, "type": "part_of", "weight": 0.5, "learned_at": 1, "supports": (support("a"),)}
    with pytest.raises(MemoryRefusedError, match=why):
        check_edges([MemoryEdge(**{"source": "a", "target": "b", **good, **fields})])


def test_more_than_a_call_may_write_is_refused() -> None:
    with pytest.raises(MemoryRefusedError, match="1000 at most"):
        check_nodes([node("a", OURS)] * 1001)
    with pytest.raises(MemoryRefusedError, match="1000 at most"):
        check_edges([edge("a", "b", OURS)] * 1001)
