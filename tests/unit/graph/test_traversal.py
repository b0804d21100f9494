"""What a walk may want, and what an edge costs."""

import pytest

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.knowledge import EdgeType, WalkedEdge
from pentad.shared.graph.traversal import Walk, neighbours_of
from pentad.shared.owners import Owner


@pytest.mark.parametrize(("depth", "nodes"), [(7, 10), (-1, 10), (2, 0), (2, 5001)])
def test_a_walk_without_bounds_is_refused(depth: int, nodes: int) -> None:
    with pytest.raises(MemoryRefusedError, match="a walk goes"):
        Walk(Owner("t"), depth, nodes)


def test_of_several_edges_between_two_the_cheapest_counts_in_both_directions() -> None:
    light, part, near, far, same = links = [
        WalkedEdge("a", "b", EdgeType.RELATED_TO, 0.2),
        WalkedEdge("b", "a", EdgeType.PART_OF, 1.0),
        WalkedEdge("c", "a", EdgeType.RELATED_TO, 1.0),
        WalkedEdge("c", "d", EdgeType.RELATED_TO, 0.0),
        WalkedEdge("b", "a", EdgeType.RELATED_TO, 1.0),
    ]
    around = neighbours_of(["a", "d"], links)
    assert around == {"a": [("b", 0.01, part), ("c", 0.01, near)], "d": [("c", 1.01, far)]}
    assert neighbours_of(["a"], [light, same, part])["a"] == [("b", 0.01, same)], "of equal ones the first"
