"""The constraints of a Neo4j server are there before anything is written, and mend what was written without them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from neo4j import AsyncDriver, AsyncGraphDatabase
from neo4j.exceptions import ConstraintError

from pentad.services.archiver.app import Archiver
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph import cypher
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, Tally
from pentad.shared.graph.merging import merged_edges, merged_nodes
from pentad.shared.graph.neo4j_graph import Neo4jGraph
from pentad.shared.graph.neo4j_rows import edge_row, node_row
from pentad.shared.owners import Owner
from pentad.shared.settings import Settings
from tests.support.graph_export import exported, line_of
from tests.support.graph_maker import edge, node, support
from tests.support.neo4j.neo4j_server import PASSWORD, Neo4jServer
from tests.support.redis.switch import Switch
from tests.support.stores.neo4j import NEO4J
from tests.support.waiting import wait_until

_NAMES = (
    "SHOW CONSTRAINTS YIELD name, labelsOrTypes WHERE labelsOrTypes[0] STARTS WITH 'Memory' RETURN name ORDER BY name"
)
_CREATE = "UNWIND $rows AS row CREATE (n:Memory {key: row.key}) SET n += row.said, n += row.kept"
_LINK = """
UNWIND $rows AS row MATCH (a:Memory {key: row.source_key}), (b:Memory {key: row.target_key})
CREATE (a)-[r:RELATED_TO {key: row.key}]->(b) SET r += row.kept
"""
"""Each pair of copies gets an edge, as when writers find different copies."""
_KEPT = ("tenant", "id", "user", "importance", "weight", "learned_at", "true_from", "true_until", "supports")


@asynccontextmanager
async def raw(server: Neo4jServer) -> AsyncIterator[AsyncDriver]:
    """The server with the password, which few tests use: those that do keep what they write to tenants of their own."""
    async with AsyncGraphDatabase.driver(server.password_uri, auth=("neo4j", PASSWORD)) as driver:
        yield driver


@pytest.fixture
async def server_graph(neo4j_server: Neo4jServer) -> AsyncIterator[Neo4jGraph]:
    graph = Neo4jGraph(neo4j_server.password_uri, "neo4j", PASSWORD, 60)
    yield graph
    await graph.aclose()


async def unconstrained(driver: AsyncDriver, work: Any) -> None:
    """Do the work without constraints; again, where another test has made them meanwhile."""

    async def done() -> bool:
        for one in (await driver.execute_query(_NAMES)).records:
            await driver.execute_query(f"DROP CONSTRAINT {one['name']} IF EXISTS")
        try:
            await work()
        except ConstraintError:
            return False
        return True

    await wait_until("a server without constraints", done)


def kept(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "kept": {name: row[name] for name in _KEPT if row.get(name) is not None}}


async def written_twice(driver: AsyncDriver, nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge]) -> None:
    async def work() -> None:
        async with driver.session() as session, await session.begin_transaction() as tx:
            await tx.run(_CREATE, rows=[kept(node_row(one)) for one in nodes])
            await tx.run(_LINK, rows=[kept(edge_row(one)) for one in edges])
            await tx.run("CREATE (:MemoryStore {name: 'graph', identity: randomUUID()})")
            await tx.run("CREATE (:MemoryStore {name: 'graph', identity: randomUUID()})")
            await tx.commit()

    await unconstrained(driver, work)


async def test_what_was_written_twice_before_the_constraint_was_there_is_merged(
    neo4j_server: Neo4jServer, server_graph: Neo4jGraph, ours: Owner
) -> None:
    ada, bob = Owner(ours.tenant, "ada"), Owner(ours.tenant, "bob")
    nodes = [
        node("cat", ours, support("1"), importance=0.25, learned_at=2000),
        node("cat", ours, support("2"), importance=0.75, true_from=5, true_until=9),
        node("cat", ours, support("2"), support("3"), importance=0.5, true_until=7),
        *(node("hat", ada, support(name)) for name in "45"),
        node("mat", ours, support("6")),
    ]
    edges = [edge("cat", "mat", ours, support("7"), weight=0.25), edge("hat", "cat", ada, support("8"), weight=0.75)]
    foreign = [node("hat", bob, support("9"), learned_at=9000), node("fat", bob, support("9"))]
    hers = edge("fat", "hat", bob, support("10"))
    async with raw(neo4j_server) as driver:
        await written_twice(driver, [*nodes, *foreign], [*edges, hers])
        assert len(await server_graph.node_page(ours.tenant, 99)) == len(nodes) + len(foreign)
        await server_graph.prepare()
        names = [one["name"] for one in (await driver.execute_query(_NAMES)).records]
        stores = (await driver.execute_query("MATCH (s:MemoryStore) RETURN s")).records
    assert (names, len(stores)) == (["memory_key", "memory_store"], 1)
    expected = [*map(line_of, merged_nodes([*nodes, foreign[1]])), *map(line_of, merged_edges(edges))]
    assert await exported(server_graph, ours.tenant) == sorted(expected), "the later owner's is left out"
    await server_graph.upsert_edges([edge("hat", "mat", ada)])
    assert await server_graph.tally(ours.tenant) == Tally(4, 3)


async def test_more_nodes_than_one_repair_takes_are_all_merged(
    neo4j_server: Neo4jServer, server_graph: Neo4jGraph, ours: Owner
) -> None:
    names = [f"n{number}" for number in range(250)]
    twice = [node(name, ours, support(said)) for name in names for said in "ab"]
    async with raw(neo4j_server) as driver:
        await written_twice(driver, twice, [edge("n0", name, ours) for name in names[1:]])
    await server_graph.prepare()
    assert await server_graph.tally(ours.tenant) == Tally(250, 249)
    [first] = await server_graph.nodes(ours, ["n0"])
    assert len(first.supports) == 2


async def test_the_first_write_of_a_process_makes_the_constraints(
    neo4j_server: Neo4jServer, server_graph: Neo4jGraph, ours: Owner
) -> None:
    """Writers at once make one node of it, though nobody has prepared the store."""
    others = [Neo4jGraph(neo4j_server.password_uri, "neo4j", PASSWORD, 60) for _ in range(3)]
    async with raw(neo4j_server) as driver:

        async def nothing() -> None:
            """Leave the server without constraints."""

        await unconstrained(driver, nothing)
        graphs = [server_graph, *others]
        await asyncio.gather(
            *(graph.upsert_nodes([node("cat", ours, support(str(n)))]) for n, graph in enumerate(graphs))
        )
        assert len((await driver.execute_query(_NAMES)).records) == 2
    for graph in others:
        await graph.aclose()
    [written] = await server_graph.node_page(ours.tenant, 99)
    assert len(written.supports) == len(graphs)


async def test_preparing_a_slow_server_may_take_longer_than_a_call(neo4j_server: Neo4jServer, ours: Owner) -> None:
    switch = Switch(neo4j_server.open_port)
    switch.start()
    graph = Neo4jGraph(f"bolt://127.0.0.1:{switch.port}", timeout_s=30)
    try:
        await graph.tally(ours.tenant)
        graph._session._timeout_s = 0.3
        switch.hold()
        preparing = asyncio.create_task(graph.prepare())
        with pytest.raises(MemoryOutageError, match=r"did not answer in 0\.3 s"):
            await graph.tally(ours.tenant)
        assert not preparing.done()
        switch.release()
        await preparing
    finally:
        await graph.aclose()
        switch.close()


async def test_an_archiver_learns_nothing_before_the_server_is_prepared(
    redis_url: str, neo4j_server: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may, steps = asyncio.Event(), list[str]()
    prepare = Neo4jGraph.prepare

    async def slow(self: Neo4jGraph) -> None:
        steps.append("asked")
        await may.wait()
        await prepare(self)
        steps.append("prepared")

    monkeypatch.setattr(Neo4jGraph, "prepare", slow)
    settings = Settings(redis_url=redis_url, pentad_data_dir=tmp_path, neo4j_uri=neo4j_server.open_uri)
    archiver = Archiver(settings)
    begin = [consumer.start for consumer in archiver._known._consumers]
    assert begin
    for consumer in archiver._known._consumers:

        async def started(begins: Any = consumer.start) -> None:
            steps.append("consumer")
            await begins()

        monkeypatch.setattr(consumer, "start", started)
    await archiver.start()
    try:
        await wait_until("it to be prepared", lambda: "asked" in steps)
        assert archiver.checks()["graph"] == "it is being opened"
        may.set()
        await wait_until("all that learns to be started", lambda: steps.count("consumer") == len(begin))
        assert steps.index("prepared") < steps.index("consumer")
    finally:
        await archiver.stop()


@pytest.fixture
async def two_graphs(neo4j_server: Neo4jServer) -> AsyncIterator[list[Graph]]:
    """Two processes, as it were."""
    graphs: list[Graph] = [Neo4jGraph(neo4j_server.open_uri, timeout_s=60) for _ in range(2)]
    await graphs[0].prepare()
    yield graphs
    for graph in graphs:
        await graph.aclose()


async def test_writes_to_the_same_nodes_at_once_all_succeed(two_graphs: list[Graph], ours: Owner) -> None:
    """Each process locks them in its own order, so that some have to be repeated."""
    await two_graphs[0].upsert_nodes([node(name, ours) for name in "abcdef"])

    async def write(number: int) -> None:
        around = "abcdef" if number % 2 else "fedcba"
        kind = list(EdgeType)[number % 3]
        await two_graphs[number % 2].upsert_edges(
            [edge(one, other, ours, support(f"{number}"), type=kind) for one, other in pairwise(around)]
        )

    await asyncio.gather(*map(write, range(40)))
    told = await two_graphs[0].edge_page(ours.tenant, 999)
    assert sum(len(one.supports) for one in told) == 40 * 5


def _operators(plan: Any) -> list[tuple[str, str]]:
    found = [(plan["operatorType"].partition("@")[0], plan.get("args", {}).get("Details", ""))]
    return found + [each for child in plan.get("children", ()) for each in _operators(child)]


@pytest.mark.slow
async def test_edges_are_found_by_their_ends_also_as_planned_while_the_graph_is_empty(ours: Owner) -> None:
    """On a server of its own, as the plan is made from what there is."""
    with NEO4J.open("process") as server:
        graph = Neo4jGraph(server.url, timeout_s=60)
        await graph.prepare()
        await graph.aclose()
        async with AsyncGraphDatabase.driver(server.url) as driver:
            for statement in cypher.PUT_EDGES.values():
                told = await driver.execute_query(f"EXPLAIN {statement}", rows=[edge_row(edge("a", "b", ours))])
                seeks = [what for what in _operators(told.summary.plan) if "Seek" in what[0] or "Scan" in what[0]]
                assert [name for name, _ in seeks] == ["NodeUniqueIndexSeek(Locking)"] * 2, seeks
