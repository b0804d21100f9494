"""Walks through random graphs, compared with networkx, on every store."""

import random
from collections.abc import Sequence
from pathlib import Path

import networkx
import pytest

from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, WalkedEdge
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.graph.traversal import STRATEGIES, Walk, a_star, breadth_first, depth_first, path_to
from pentad.shared.owners import Owner
from tests.support.graph_maker import edge, node, random_edges

SEEDS = [1, 2, 3]


async def made(graph: Graph, owner: Owner, seed: int) -> "networkx.Graph[str]":
    """A random graph in the store, and the same one in networkx; ``cost`` as the walks count it."""
    edges = random_edges(random.Random(seed), owner, 40, 70)
    await graph.upsert_nodes([node(f"n{n}", owner) for n in range(40)])
    await graph.upsert_edges(edges)
    return twin(edges)


def twin(edges: list[MemoryEdge]) -> "networkx.Graph[str]":
    same: networkx.Graph[str] = networkx.Graph()
    same.add_nodes_from(f"n{n}" for n in range(40))
    for way in edges:
        cost = 1 - way.weight + 0.01
        there = same.get_edge_data(way.source, way.target, {"cost": cost})
        same.add_edge(way.source, way.target, cost=min(cost, there["cost"]))
    return same


@pytest.mark.parametrize("seed", SEEDS)
async def test_breadth_first_comes_to_what_networkx_does_at_the_same_depth(
    graph: Graph, ours: Owner, seed: int
) -> None:
    same = await made(graph, ours, seed)
    for depth in range(5):
        found = await breadth_first(graph, ["n0"], Walk(ours, depth, 100))
        expected = networkx.single_source_shortest_path_length(same, "n0", cutoff=depth)
        assert {reached.id: reached.depth for reached in found} == dict(expected)
        assert [reached.depth for reached in found] == sorted(reached.depth for reached in found)
        assert all(same.has_edge(r.id, r.came_from) for r in found if r.came_from)


@pytest.mark.parametrize("seed", SEEDS)
async def test_depth_first_goes_the_way_that_networkx_goes(graph: Graph, ours: Owner, seed: int) -> None:
    same = await made(graph, ours, seed)

    def cheapest_first(near: list[str], here: str) -> list[str]:
        return sorted(near, key=lambda there: (same[here][there]["cost"], there))

    order: list[str] = []
    waiting: list[tuple[str, int, str | None]] = [("n0", 0, None)]
    while waiting:  # networkx has no depth-first order along the cheapest edge with a limit: its graph, our stack
        here, depth, _ = waiting.pop()
        if here in order:
            continue
        order.append(here)
        if depth < 4:
            near = cheapest_first(list(same.neighbors(here)), here)
            waiting += [(there, depth + 1, here) for there in reversed(near)]
    found = await depth_first(graph, ["n0"], Walk(ours, 4, 100))
    assert [reached.id for reached in found] == order
    assert {reached.id for reached in found} <= set(networkx.single_source_shortest_path_length(same, "n0", cutoff=4))
    whole = await depth_first(graph, ["n0"], Walk(ours, 6, 100))
    assert all(r.depth == 0 or same.has_edge(r.id, str(r.came_from)) for r in whole)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_star_finds_ways_as_cheap_as_networkx_does(graph: Graph, ours: Owner, seed: int) -> None:
    same = await made(graph, ours, seed)
    near = networkx.single_source_shortest_path_length(same, "n0")
    costs = networkx.single_source_dijkstra_path_length(same, "n0", weight="cost")
    paths = networkx.single_source_dijkstra_path(same, "n0", weight="cost")
    found = {reached.id: reached for reached in await a_star(graph, ["n0"], Walk(ours, 6, 100))}
    for goal, path in paths.items():
        if len(path) <= 7:
            assert found[goal].cost == pytest.approx(costs[goal])
    assert set(found) == {name for name, depth in near.items() if depth <= 6}
    goal = max((name for name, path in paths.items() if len(path) <= 7), key=lambda name: costs[name])
    far = {name: 0.01 * _far(same, name, goal) for name in same}
    guessed = await a_star(graph, ["n0"], Walk(ours, 6, 100), far.__getitem__, frozenset({goal}))
    assert guessed[-1].id == goal
    assert guessed[-1].cost == pytest.approx(networkx.astar_path_length(same, "n0", goal, weight="cost"))


def _far(same: "networkx.Graph[str]", one: str, other: str) -> float:
    """Edges between two: each costs 0.01 at least."""
    return float(networkx.shortest_path_length(same, one, other)) if networkx.has_path(same, one, other) else 1e9


async def test_a_cheap_long_way_does_not_hide_a_short_one(graph: Graph, ours: Owner) -> None:
    await graph.upsert_nodes([node(name, ours) for name in "abcd"])
    await graph.upsert_edges(
        [
            edge("a", "b", ours, weight=1.0),
            edge("b", "c", ours, weight=1.0),
            edge("a", "c", ours, weight=0.5),
            edge("c", "d", ours, weight=1.0),
        ]
    )
    found = {reached.id: reached for reached in await a_star(graph, ["a"], Walk(ours, 2, 9))}
    assert (round(found["c"].cost, 6), found["c"].depth) == (0.02, 2)
    assert (round(found["d"].cost, 6), found["d"].depth) == (0.52, 2)


async def test_of_two_ways_that_are_equal_in_all_the_one_by_the_first_name_counts(graph: Graph, ours: Owner) -> None:
    """Edges that a rule makes have equal weights: two names that the same two tasks mention are enough."""
    await graph.upsert_nodes([node(name, ours) for name in "abcde"])
    await graph.upsert_edges([edge(one, two, ours, weight=0.5) for one, two in ("ab", "ac", "bd", "cd", "be", "ce")])
    for starts in (["a"], ["b", "c"]):
        found = await a_star(graph, starts, Walk(ours, 2, 9))
        assert {reached.id: reached.came_from for reached in found if reached.id in "de"} == {"d": "b", "e": "b"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_each_node_tells_its_way_back_to_a_start(graph: Graph, ours: Owner, strategy: str, seed: int) -> None:
    await made(graph, ours, seed)
    there = {(each.source, each.target, each.type, each.weight) for each in await graph.edge_page(ours.tenant, 100)}
    for reached in await STRATEGIES[strategy](graph, ["n0", "n1", "n2"], Walk(ours, 4, 100)):
        here, cost = reached.id, 0.0
        way = path_to(reached)
        for way_edge in way:
            assert (way_edge.source, way_edge.target, way_edge.type, way_edge.weight) in there
            assert here in (way_edge.source, way_edge.target)
            here = way_edge.target if here == way_edge.source else way_edge.source
            cost += 1 - way_edge.weight + 0.01
        assert (here in ("n0", "n1", "n2"), len(way), round(cost, 6)) == (True, reached.depth, round(reached.cost, 6))


async def test_a_walk_keeps_its_bounds_its_types_and_its_owner(
    graph: Graph, ours: Owner, ada: Owner, bob: Owner
) -> None:
    await graph.upsert_nodes([node(name, ours) for name in "abcd"])
    await graph.upsert_edges(
        [
            edge("a", "b", ours, type=EdgeType.PART_OF, true_until=50),
            edge("a", "c", ada, weight=0.9),
            edge("c", "d", bob),
        ]
    )
    for go in (breadth_first, depth_first, a_star):

        async def ids(walk: Walk, starts: str = "a", go=go) -> str:  # type: ignore[no-untyped-def]
            return "".join(reached.id for reached in await go(graph, list(starts), walk))

        assert await ids(Walk(ada)) == "acb"
        assert await ids(Walk(bob)) == "ab"
        assert await ids(Walk(ada, types=(EdgeType.PART_OF,))) == "ab"
        assert await ids(Walk(ada, as_of=60)) == "ac"
        assert await ids(Walk(ada, nodes=2)) == "ac"
        assert await ids(Walk(ada, depth=0)) == "a"
        assert await ids(Walk(ada, depth=0, nodes=2), "aabc") == "ab"
        assert await ids(Walk(ada), "") == ""
        assert sorted(await ids(Walk(ours), "xa")) == ["a", "b", "x"]


async def test_a_walk_to_few_nodes_asks_for_few_links(ours: Owner, tmp_path: Path) -> None:
    """Promise: a node to which hundreds lead costs a walk no more than the nodes that it may come to, the nearest."""
    graph = Counting(tmp_path / "graph.db")
    await graph.upsert_nodes([node(f"n{n:03}", ours) for n in range(400)])
    await graph.upsert_edges([edge("n000", f"n{n:03}", ours, weight=n / 400) for n in range(1, 400)])
    for go in STRATEGIES.values():
        found = await go(graph, ["n000"], Walk(ours, 1, 3))
        assert [reached.id for reached in found] == ["n000", "n399", "n398"]
    await graph.aclose()
    assert graph.found == [150] * len(STRATEGIES)


class Counting(SqliteGraph):
    """A graph that notes how many links each question has found."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.found: list[int] = []

    async def links(
        self, owner: Owner, ids: Sequence[str], limit: int, types: Sequence[EdgeType] = (), as_of: int | None = None
    ) -> list[WalkedEdge]:
        links = await super().links(owner, ids, limit, types, as_of)
        self.found.append(len(links))
        return links
