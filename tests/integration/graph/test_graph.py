"""What every store of the graph promises: the same whatever came first, and for nobody else to see."""

import asyncio
import random
from dataclasses import replace

import pytest

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import BareEdge, EdgeType, Metadata, NodeKind, Tally, WalkedEdge
from pentad.shared.graph.merging import merged_edges, merged_nodes, sorted_supports, without_supports
from pentad.shared.graph.metadata import metadata_text
from pentad.shared.owners import Owner
from tests.support.graph_export import exported, line_of
from tests.support.graph_maker import edge, node, support

TOLD = [None, *(Metadata(f'{{"k":"{text}"}}', at) for at in (1, 2) for text in ("a", "é", "～", "🐈", ""))]
"""Equally old ones, too, whose texts are not in the same order in UTF-16 and in UTF-8."""


async def test_what_was_written_is_read_as_it_was(graph: Graph, ada: Owner) -> None:
    odd = "Ада 猫 \u0000 🐈‍⬛ \u202e it's {not} $a `query`"
    rests = sorted_supports([support("x|y", "task-0-2", "ada", 7), support("b"), support("c", at=1)])
    times = {"true_from": 5, "true_until": 9}
    told = Metadata(metadata_text({"猫": odd, "deep": [{"n": None}, 1, 2.5, -0.0, 10**30, True], "": {}}), 8)
    kept = node("a", ada, *rests, kind=NodeKind.FACT, text=odd, merged_into="b", importance=1, metadata=told, **times)
    other = node("b", ada)
    way = edge("a", "b", ada, *rests, type=EdgeType.CONTRADICTS, weight=0.25, metadata=told, **times)
    await graph.upsert_nodes([kept, other])
    await graph.upsert_edges([way])
    assert await graph.nodes(ada, ["b", "a", "none"]) == [kept, other]
    assert await graph.edges(ada, ["b"], 10) == [way]
    assert await graph.between(ada, ["b", "a"], 10) == [without_supports(way)]
    assert await graph.tally(ada.tenant) == Tally(2, 1)


async def test_names_and_tasks_are_counted_among_the_nodes_and_apart(graph: Graph, ada: Owner) -> None:
    await graph.upsert_nodes([node(kind.value, ada, kind=kind) for kind in NodeKind])
    assert await graph.tally(ada.tenant) == Tally(7, 0, names=2)


async def test_writes_in_any_order_and_number_end_the_same_and_as_the_rules_say(graph: Graph, ours: Owner) -> None:
    chance = random.Random(7)
    nodes = [
        node(
            chance.choice("abc"),
            ours,
            support(str(n % 5), at=n % 3),
            text=f"text {chance.randrange(4)}",
            kind=chance.choice(list(NodeKind)),
            importance=chance.randrange(5) / 4,
            learned_at=chance.randrange(3),
            true_from=chance.choice([None, 1, 2]),
            true_until=chance.choice([None, 5, 6]),
            merged_into=chance.choice([None, "d", "e"]),
            metadata=chance.choice(TOLD),
        )
        for n in range(40)
    ]
    edges = [
        edge(
            (ends := chance.sample("abc", 2))[0],
            ends[1],
            ours,
            support(str(n % 5)),
            type=chance.choice(list(EdgeType)[:2]),
            weight=chance.randrange(5) / 4,
            learned_at=chance.randrange(3),
            true_from=chance.choice([None, 1, 2]),
            true_until=chance.choice([None, 5, 6]),
            metadata=chance.choice(TOLD),
        )
        for n in range(40)
    ]
    expected = sorted([*map(line_of, merged_nodes(nodes)), *map(line_of, merged_edges(edges))])
    await graph.upsert_nodes(nodes)
    await graph.upsert_edges(edges)
    assert await exported(graph, ours.tenant) == expected
    chance.shuffle(nodes)
    chance.shuffle(edges)
    for begin in range(0, 40, 9):
        await graph.upsert_nodes(nodes[begin : begin + 9])
        await graph.upsert_edges(edges[begin : begin + 9])
    assert await exported(graph, ours.tenant) == expected
    await graph.forget_tenant(ours.tenant)
    for one in nodes:
        await graph.upsert_nodes([one])
    for way in edges:
        await graph.upsert_edges([way])
    assert await exported(graph, ours.tenant) == expected


async def test_writers_at_the_same_time_lose_nothing_of_each_other(graph: Graph, ours: Owner) -> None:
    nodes = [node(name, ours, support(f"{n}")) for n in range(20) for name in ("a", "b")]
    await graph.upsert_nodes(nodes[:2])
    edges = [edge("a", "b", ours, support(f"{n}")) for n in range(20)]
    writes = [graph.upsert_nodes(nodes[n : n + 2]) for n in range(2, 40, 2)]
    await asyncio.gather(*writes, *(graph.upsert_edges([way]) for way in edges))
    [a, b], [way] = await graph.nodes(ours, ["a", "b"]), await graph.edges(ours, ["a"], 5)
    assert len(a.supports) == len(b.supports) == len(way.supports) == 20


async def test_an_owner_sees_his_own_and_nobodys(graph: Graph, ours: Owner, ada: Owner, bob: Owner) -> None:
    other = Owner(f"{ours.tenant}x", "ada")
    await graph.upsert_nodes([node("ours", ours), node("adas", ada), node("bobs", bob), node("adas", other)])
    await graph.upsert_nodes([node("ours2", ours), node("theirs", other)])
    await graph.upsert_edges([edge("ours", "adas", ada), edge("ours", "bobs", bob), edge("ours", "ours2", bob)])
    every = ["ours", "ours2", "adas", "bobs", "theirs"]
    assert [n.id for n in await graph.nodes(ada, every)] == ["adas", "ours", "ours2"]
    assert [n.id for n in await graph.nodes(ours, every)] == ["ours", "ours2"]
    assert [n.owner for n in await graph.nodes(other, every)] == [other, other]
    assert [n.id for n in await graph.named(ada, ["ADAS", "bobs", "theirs"])] == ["adas"]
    assert [(e.source, e.target) for e in await graph.edges(ada, every, 9)] == [("ours", "adas")]
    assert {link.target for link in await graph.links(bob, every, 9)} == {"bobs", "ours2"}
    assert await graph.links(ours, every, 9) == []
    assert await graph.links(other, every, 9) == []
    await graph.end(bob, every, 2000)
    await graph.remove(bob, ["adas", "theirs", "bobs"])
    assert [n.id for n in await graph.nodes(ada, ["adas"]) if n.true_until is None] == ["adas"]
    assert await graph.tally(other.tenant) == Tally(2, 0)
    await graph.forget_tenant(other.tenant)


async def test_of_a_task_only_the_statements_that_are_still_there_are_kept(graph: Graph, ours: Owner) -> None:
    kept, moved, other = support("x|kept"), support("moved|x"), support("moved|x", "task-0-2")
    await graph.upsert_nodes([node("a", ours, kept, moved), node("b", ours, moved), node("c", ours, moved, other)])
    await graph.upsert_edges([edge("a", "c", ours, moved), edge("c", "a", ours, kept), edge("a", "b", ours, kept)])
    for _ in range(2):
        await graph.retain(ours.tenant, "task-0-1", ["anchor-x|kept"])
        assert {n.id: n.supports for n in await graph.nodes(ours, ["a", "b", "c"])} == {"a": (kept,), "c": (other,)}
        assert [(e.source, e.target, e.supports) for e in await graph.edges(ours, ["a"], 9)] == [("c", "a", (kept,))]
    await graph.retain(ours.tenant, "task-0-1", [])
    assert [n.id for n in await graph.nodes(ours, ["a", "b", "c"])] == ["c"]
    with pytest.raises(MemoryRefusedError):
        await graph.retain(ours.tenant, "no task", [])
    with pytest.raises(MemoryRefusedError):
        await graph.retain(ours.tenant, "task-0-1", ["x"] * 5_001)


async def test_nothing_merges_across_owners(graph: Graph, ours: Owner, ada: Owner, bob: Owner) -> None:
    await graph.upsert_nodes([node("a", ada)])
    for foreign in (bob, ours):
        with pytest.raises(MemoryRefusedError, match="another owner"):
            await graph.upsert_nodes([node("new", foreign), node("a", foreign)])
    assert [n.id for n in await graph.node_page(ours.tenant, 9)] == ["a"]


async def test_an_edge_needs_ends_that_its_owner_sees_or_nothing_of_the_call_is_written(
    graph: Graph, ours: Owner, ada: Owner, bob: Owner
) -> None:
    await graph.upsert_nodes([node("ours", ours), node("adas", ada), node("bobs", bob)])
    for bad in (edge("ours", "none", ada), edge("ours", "bobs", ada), edge("ours", "adas", ours)):
        with pytest.raises(MemoryRefusedError, match="cannot see"):
            await graph.upsert_edges([edge("adas", "ours", ada), bad])
    assert await graph.tally(ours.tenant) == Tally(3, 0)


async def test_links_are_narrowed_by_type_and_time_the_heaviest_first(graph: Graph, ours: Owner, ada: Owner) -> None:
    await graph.upsert_nodes([node(name, ours) for name in "abcd"])
    await graph.upsert_edges(
        [
            edge("a", "b", ours, weight=0.2, true_from=10, true_until=20),
            edge("a", "b", ada, weight=0.3, true_from=20),
            edge("c", "a", ours, weight=0.9, type=EdgeType.PART_OF),
            edge("a", "d", ours, weight=0.9),
            edge("b", "d", ours, weight=1.0),
        ]
    )
    related, part = EdgeType.RELATED_TO, EdgeType.PART_OF
    heavy = [WalkedEdge("a", "d", related, 0.9), WalkedEdge("c", "a", part, 0.9)]
    assert await graph.links(ada, ["a"], 9) == [*heavy, WalkedEdge("a", "b", related, 0.3)]
    assert await graph.links(ours, ["a"], 9) == [*heavy, WalkedEdge("a", "b", related, 0.2)]
    assert await graph.links(ours, ["a"], 1) == heavy[:1]
    assert await graph.links(ours, ["a"], 9, [part]) == heavy[1:]
    assert await graph.links(ours, ["a"], 9, as_of=10) == [*heavy, WalkedEdge("a", "b", related, 0.2)]
    assert await graph.links(ours, ["a"], 9, as_of=20) == heavy
    assert await graph.links(ada, ["a"], 9, as_of=20) == [*heavy, WalkedEdge("a", "b", related, 0.3)]
    assert len(await graph.links(ada, ["a", "b", "c", "d"], 9)) == 4
    found = await graph.edges(ada, ["b", "a"], 9)
    assert [(e.source, e.target, e.owner.user) for e in found][:3] == [
        ("b", "d", None),
        ("a", "d", None),
        ("c", "a", None),
    ]


async def test_edges_between_nodes_are_told_with_their_owners_and_without_what_leads_away(
    graph: Graph, ours: Owner, ada: Owner, bob: Owner
) -> None:
    await graph.upsert_nodes([node(name, ours) for name in "abcd"])
    told = Metadata('{"why":"they said so"}', 5)
    ways = [
        edge("a", "b", ours, weight=0.2, true_from=10, true_until=20, metadata=told), edge("a", "b", ada, weight=0.3),
        edge("b", "a", ours, weight=0.9, type=EdgeType.PART_OF), edge("a", "b", bob), edge("a", "d", ours, weight=1.0),
    ]  # fmt: skip
    await graph.upsert_edges(ways)
    own, hers, part = (without_supports(each) for each in ways[:3])
    assert own == BareEdge(ours, "a", "b", EdgeType.RELATED_TO, 0.2, told)
    assert await graph.between(ada, ["a", "b", "c", "none"], 9) == [part, hers, own]
    assert await graph.between(ours, ["a", "b", "c"], 9) == [part, own]
    assert await graph.between(ada, ["b", "a"], 9, [EdgeType.RELATED_TO], as_of=20) == [hers]
    assert await graph.between(ada, ["b", "a"], 1) == [part]
    assert await graph.between(Owner(f"{ours.tenant}x", "ada"), ["a", "b"], 9) == []


async def test_metadata_that_was_told_last_counts_whole_and_goes_with_its_node(graph: Graph, ours: Owner) -> None:
    first, last = Metadata('{"a":1,"b":1}', 1), Metadata('{"a":2}', 2)
    for told in (last, first, None):
        await graph.upsert_nodes([node("a", ours, metadata=told), node("b", ours)])
        await graph.upsert_edges([edge("a", "b", ours, metadata=told)])
        assert (await graph.nodes(ours, ["a"]))[0].metadata == last
        assert (await graph.edges(ours, ["a"], 9))[0].metadata == last
    assert [bool(n.metadata) for n in await graph.node_page(ours.tenant, 9)] == [True, False]
    assert [e.metadata for e in await graph.edge_page(ours.tenant, 9)] == [last]
    assert [n.metadata for n in await graph.named(ours, ["a"])] == [last]
    await graph.forget_task(ours.tenant, "task-0-1")
    await graph.upsert_nodes([node("a", ours), node("b", ours)])
    await graph.upsert_edges([edge("a", "b", ours)])
    assert [n.metadata for n in await graph.nodes(ours, ["a"])] == [None]
    assert [e.metadata for e in await graph.between(ours, ["a", "b"], 9)] == [None]


async def test_a_name_is_found_however_it_is_written(graph: Graph, ours: Owner) -> None:
    await graph.upsert_nodes([node("1", ours, text="New  York"), node("2", ours, text="ＮＥＷ york"), node("3", ours)])
    assert [n.id for n in await graph.named(ours, ["new york "])] == ["1", "2"]
    assert await graph.named(ours, ["", "new"]) == []


async def test_an_interval_is_closed_once_and_stays_closed(graph: Graph, ours: Owner) -> None:
    fact = node("a", ours, true_from=10)
    await graph.upsert_nodes([fact])
    await graph.end(ours, ["a", "none"], 50)
    await graph.end(ours, ["a"], 70)
    await graph.upsert_nodes([fact])
    assert await graph.nodes(ours, ["a"]) == [replace(fact, true_until=50)]


async def test_a_removed_node_takes_its_edges_along(graph: Graph, ours: Owner) -> None:
    await graph.upsert_nodes([node(name, ours) for name in "abc"])
    await graph.upsert_edges([edge("a", "b", ours), edge("b", "c", ours), edge("a", "c", ours)])
    await graph.remove(ours, ["b", "none"])
    assert await graph.tally(ours.tenant) == Tally(2, 1)


async def test_forgetting_a_task_keeps_what_rests_on_others(graph: Graph, ours: Owner) -> None:
    first, second = support("1", "task-0-1"), support("2", "task-0-2")
    await graph.upsert_nodes([node("a", ours, first, second), node("b", ours, first), node("c", ours, second)])
    ways = [edge("a", "c", ours, first), edge("c", "a", ours, first, second), edge("b", "c", ours, second)]
    await graph.upsert_edges(ways)
    await graph.forget_task(ours.tenant, "task-0-1")
    assert [(n.id, n.supports) for n in await graph.node_page(ours.tenant, 9)] == [("a", (second,)), ("c", (second,))]
    assert [(e.source, e.supports) for e in await graph.edge_page(ours.tenant, 9)] == [("c", (second,))]
    await graph.forget_task(ours.tenant, "task-0-2")
    assert await graph.tally(ours.tenant) == Tally(0, 0)


async def test_forgetting_a_user_takes_his_own_and_what_he_alone_said(
    graph: Graph, ours: Owner, ada: Owner, bob: Owner
) -> None:
    said, by_bob = support("1", user="ada"), support("2", user="bob")
    other = Owner(f"{ours.tenant}x", "ada")
    await graph.upsert_nodes([node("ours", ours, said, by_bob), node("gone", ours, said), node("adas", ada, by_bob)])
    await graph.upsert_nodes([node("bobs", bob, by_bob), node("adas", other, said)])
    await graph.upsert_edges([edge("ours", "adas", ada, by_bob), edge("ours", "gone", ours, by_bob)])
    await graph.upsert_edges([edge("ours", "bobs", bob, by_bob)])
    await graph.forget_user(ours.tenant, "ada")
    left = await graph.node_page(ours.tenant, 9)
    assert [(n.id, n.supports) for n in left] == [("bobs", (by_bob,)), ("ours", (by_bob,))]
    assert [e.target for e in await graph.edge_page(ours.tenant, 9)] == ["bobs"]
    assert await graph.tally(other.tenant) == Tally(1, 0)
    await graph.forget_tenant(other.tenant)


async def test_forgetting_a_tenant_leaves_the_others(graph: Graph, ours: Owner) -> None:
    other = Owner(f"{ours.tenant}x")
    for owner in (ours, other):
        await graph.upsert_nodes([node("a", owner), node("b", owner)])
        await graph.upsert_edges([edge("a", "b", owner)])
    await graph.forget_tenant(ours.tenant)
    assert await graph.tally(ours.tenant) == Tally(0, 0)
    assert await graph.tally(other.tenant) == Tally(2, 1)
    await graph.forget_tenant(other.tenant)


async def test_pages_hold_everything_once(graph: Graph, ours: Owner) -> None:
    names = [f"n{n:03d}" for n in range(25)]
    await graph.upsert_nodes([node(name, ours) for name in names])
    await graph.upsert_edges([edge(names[0], name, ours) for name in names[1:]])
    seen: list[str] = []
    while page := await graph.node_page(ours.tenant, 10, seen[-1] if seen else ""):
        seen += [one.id for one in page]
    assert seen == names
    assert len(await exported(graph, ours.tenant)) == 49


async def test_bad_input_is_refused_with_all_that_came_with_it(graph: Graph, ours: Owner) -> None:
    for bad in (node("b", ours, text="\ud800"), node("b\n", ours), node("b", ours, importance=float("nan"))):
        with pytest.raises(MemoryRefusedError):
            await graph.upsert_nodes([node("a", ours), bad])
    with pytest.raises(MemoryRefusedError):
        await graph.upsert_edges([edge("a", "a", ours)])
    for told in (Metadata("[]", 1), Metadata("{", 1), Metadata('{"a": 1}', 1), Metadata("{}", -1)):
        with pytest.raises(MemoryRefusedError):
            await graph.upsert_nodes([node("a", ours, metadata=told)])
    for ask in (graph.nodes, graph.remove):
        with pytest.raises(MemoryRefusedError):
            await ask(ours, ["x"] * 6000)
    with pytest.raises(MemoryRefusedError):
        await graph.links(ours, ["a"], 0)
    with pytest.raises(MemoryRefusedError):
        await graph.between(ours, ["a"], 0)
    with pytest.raises(MemoryRefusedError):
        await graph.forget_task("*", "task-0-1")
    assert await graph.tally(ours.tenant) == Tally(0, 0)


async def test_a_closed_store_says_so_and_closes_twice(graph: Graph, ours: Owner) -> None:
    await graph.aclose()
    await graph.aclose()
    with pytest.raises(MemoryOutageError, match="closed"):
        await graph.tally(ours.tenant)
