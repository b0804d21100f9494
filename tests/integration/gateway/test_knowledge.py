"""Clients look at what is known and walk around in it; another tenant's and another user's is not there."""

import argparse
import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from pentad.cli import memory as memory_command
from pentad.client.agent import connect
from pentad.errors import Refused
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.gateway.app import GatewayService
from pentad.shared.graph.knowledge import EdgeType, Metadata, NodeKind
from pentad.shared.graph.merging import edge_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.owners import Owner
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.memory.serving import serving
from tests.support.graph_maker import edge, node, support

KEYS = "us-key:us,them-key:them"
US, THEM = ({"authorization": f"Bearer {key}"} for key in ("us-key", "them-key"))
CRM = Metadata('{"from":"crm"}', 7)
OURS, ADA = Owner("us"), Owner("us", "ada")


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_api_keys=KEYS) as service:
        yield service


@pytest.fixture
async def graph(store: Store, tmp_path: Path) -> AsyncIterator[SqliteGraph]:
    """A chain of four nodes, one of them a user's, that an archiver has."""
    made = SqliteGraph(tmp_path / "graph.db")
    rests = [support(f"{n}", at=n) for n in range(60)]
    await made.upsert_nodes([
        node("boat", OURS, *rests, kind=NodeKind.FACT, text="The boat is green\x1b[31m", true_from=1, true_until=2,
             metadata=CRM),
        node("oslo", OURS), node("fjord", OURS), node("secret", ADA), node("far", OURS),
    ])  # fmt: skip
    await made.upsert_edges([
        edge("boat", "oslo", OURS, weight=0.9, metadata=CRM),
        edge("oslo", "fjord", OURS, weight=0.2, type=EdgeType.PART_OF),
        edge("boat", "secret", ADA), edge("fjord", "far", OURS, true_until=5),
    ])  # fmt: skip
    async with serving(store, MemoryServer(store, None, made).handle):
        yield made
    await made.aclose()


async def get(http: httpx2.AsyncClient, path: str, keys: dict[str, str] = US, /, **query: Any) -> httpx2.Response:
    return await http.get(f"/v1/memory/nodes/{path}", params=query, headers=keys)


async def test_a_node_says_what_it_is_and_what_it_rests_on(http: httpx2.AsyncClient, graph: SqliteGraph) -> None:
    told = (await get(http, "boat")).json()
    supports, source = told.pop("supports"), told.pop("source")
    assert source == {"task_id": supports[-1]["task_id"], "at": source["at"], "by_hand": False}
    assert told == {
        "id": "boat", "kind": "fact", "text": "The boat is green\x1b[31m", "user_id": None, "importance": 0.5,
        "learned_at": "1970-01-01T00:00:01.000Z", "true_from": "1970-01-01T00:00:00.001Z",
        "true_until": "1970-01-01T00:00:00.002Z", "supported_by": 60, "session_id": None, "metadata": {"from": "crm"},
    }  # fmt: skip
    assert [each["anchor"] for each in supports] == [f"anchor-{n}" for n in range(59, 9, -1)], "the newest first"


async def test_a_walk_shows_nodes_in_their_order_and_the_edges_between_them(
    http: httpx2.AsyncClient, graph: SqliteGraph
) -> None:
    told = (await get(http, "boat/neighbours")).json()
    assert [(each["id"], each["depth"], each["came_from"]) for each in told["nodes"]] == [
        ("boat", 0, None), ("oslo", 1, "boat"), ("fjord", 2, "oslo")
    ]  # fmt: skip
    assert [(each["source"], each["target"], each["type"], each["weight"]) for each in told["edges"]] == [
        ("boat", "oslo", "related_to", 0.9), ("oslo", "fjord", "part_of", 0.2)
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "astar"])
async def test_each_strategy_goes_as_far_as_it_may(http: httpx2.AsyncClient, graph: SqliteGraph, strategy: str) -> None:
    async def reached(**query: Any) -> list[str]:
        told = (await get(http, "boat/neighbours", strategy=strategy, **query)).json()
        return [each["id"] for each in told["nodes"]]

    assert await reached(depth=0) == ["boat"]
    assert await reached(depth=1) == ["boat", "oslo"]
    assert await reached(depth=6) == ["boat", "oslo", "fjord", "far"]
    assert await reached(depth=6, limit=3) == ["boat", "oslo", "fjord"]
    assert await reached(depth=6, type="related_to") == ["boat", "oslo"]
    assert await reached(depth=6, as_of="2030-01-01T00:00:00Z") == ["boat", "oslo", "fjord"]
    assert set(await reached(depth=1, user_id="ada")) == {"boat", "oslo", "secret"}


async def test_an_edge_has_an_id_its_owner_and_what_clients_keep_with_it(
    http: httpx2.AsyncClient, graph: SqliteGraph
) -> None:
    await graph.upsert_edges([edge("boat", "oslo", ADA, weight=0.7)])
    first, second, *_ = (await get(http, "boat/neighbours", user_id="ada")).json()["edges"]
    assert first == {
        "id": edge_id(OURS, "boat", "oslo", EdgeType.RELATED_TO), "source": "boat", "target": "oslo",
        "type": "related_to", "weight": 0.9, "user_id": None, "session_id": None, "metadata": {"from": "crm"},
    }  # fmt: skip
    assert second == first | {
        "id": edge_id(ADA, "boat", "oslo", EdgeType.RELATED_TO), "weight": 0.7, "user_id": "ada", "metadata": {},
    }  # fmt: skip
    nodes = (await get(http, "boat/neighbours")).json()["nodes"]
    assert [each["metadata"] for each in nodes] == [{"from": "crm"}, {}, {}]


async def test_what_is_anothers_is_not_there(http: httpx2.AsyncClient, graph: SqliteGraph) -> None:
    for path, keys, query in (
        ("boat", THEM, {}), ("boat/neighbours", THEM, {}), ("secret", US, {}), ("secret", US, {"user_id": "bob"}),
        ("secret/neighbours", US, {}), ("none", US, {}), ("none/neighbours", US, {}), ("a%20b", US, {}),
        ("x" * 200, US, {}),
    ):  # fmt: skip
        refused = await get(http, path, keys, **query)
        assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json"), path
    assert (await get(http, "secret", user_id="ada")).json()["user_id"] == "ada"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"depth": "7"}, "depth"),
        ({"depth": "-1"}, "depth"),
        ({"depth": "٣"}, "depth"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"cursor": "5000"}, "cursor"),
        ({"cursor": "-1"}, "cursor"),
        ({"cursor": "٣"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "9" * 5000}, "cursor"),
        ({"strategy": "random"}, "strategy"),
        ({"type": "loves"}, "type"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"user_id": "a b"}, "user_id"),
    ],
)
async def test_a_wrong_walk_is_refused_in_words(http: httpx2.AsyncClient, query: dict[str, str], named: str) -> None:
    refused = await get(http, "boat/neighbours", **query)
    assert refused.status_code == 422
    assert named in refused.json()["detail"]


async def test_a_walk_begins_at_several_nodes(
    gateway: GatewayService, http: httpx2.AsyncClient, graph: SqliteGraph
) -> None:
    async def reached(*starts: str, **query: Any) -> list[tuple[str, int, str | None]]:
        told = (await get(http, f"{starts[0]}/neighbours", start=starts[1:], **query)).json()
        assert all(edge["source"] != edge["target"] for edge in told["edges"])
        return [(each["id"], each["depth"], each["came_from"]) for each in told["nodes"]]

    around = [("far", 0, None), ("boat", 0, None), ("fjord", 1, "far"), ("oslo", 1, "boat")]
    assert await reached("far", "boat", "far", depth=1) == around
    assert sorted(await reached("far", "boat", depth=1, strategy="astar")) == sorted(around)
    assert await reached("boat", "far", depth=6, strategy="dfs") == [
        ("boat", 0, None), ("oslo", 1, "boat"), ("fjord", 2, "oslo"), ("far", 3, "fjord")
    ], "a start that another way has come to belongs to that"  # fmt: skip
    assert await reached("boat", "far", depth=6, strategy="dfs", limit=2) == [("boat", 0, None), ("oslo", 1, "boat")]
    async with connect(gateway.address, "us-key") as agent:
        found = await agent.inspection.memory_neighbours(["far", "boat"], depth=1)
        assert [(each.id, each.depth, each.came_from) for each in found.nodes] == around
        with pytest.raises(Refused, match="begins at"):
            await agent.inspection.memory_neighbours([])


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "astar"])
async def test_pages_of_a_walk_have_each_node_and_each_edge_once_together(
    http: httpx2.AsyncClient, graph: SqliteGraph, strategy: str
) -> None:
    """A node with more neighbours than a request may have: none of them is out of reach."""
    chance = random.Random(5)
    await graph.upsert_nodes([node(f"n{n}", OURS) for n in range(450)])
    spokes = [edge("n0", f"n{n}", OURS, weight=round(chance.random(), 3)) for n in range(1, 450)]
    across = {(a, b) for a, b in (chance.sample(range(1, 450), 2) for _ in range(300))}
    await graph.upsert_edges([*spokes, *(edge(f"n{a}", f"n{b}", OURS, type=EdgeType.PART_OF) for a, b in across)])
    nodes, edges, sizes = [], [], []
    cursor: Any = "0"
    while cursor is not None:
        page = (await get(http, "n0/neighbours", strategy=strategy, limit=200, cursor=cursor)).json()
        nodes += [each["id"] for each in page["nodes"]]
        edges += [each["id"] for each in page["edges"]]
        cursor = page["next"]
        sizes.append(len(page["nodes"]))
    assert sizes == [200, 200, 50]
    assert (nodes[0], sorted(nodes)) == ("n0", sorted(f"n{n}" for n in range(450)))
    assert len(edges) == len(set(edges)) == 449 + len(across)
    assert (await get(http, "n0/neighbours", limit=200, cursor="450")).json() == {
        "nodes": [],
        "edges": [],
        "next": None,
    }


async def test_of_several_nodes_all_are_there_and_there_is_a_bound(
    http: httpx2.AsyncClient, graph: SqliteGraph
) -> None:
    for starts, query in ((["none"], {}), (["secret"], {}), (["a b"], {}), (["secret"], {"user_id": "bob"})):
        refused = await get(http, "boat/neighbours", start=["oslo", *starts], **query)
        assert refused.status_code == 404, starts
    assert (await get(http, "boat/neighbours", start=["secret"], user_id="ada")).status_code == 200
    for starts, limit, named in (([f"n{n}" for n in range(16)], 50, "start"), (["oslo", "fjord"], 2, "limit")):
        refused = await get(http, "boat/neighbours", start=starts, limit=limit)
        assert (refused.status_code, refused.json()["detail"].startswith(named)) == (422, True)
    await graph.upsert_nodes([node(f"n{n}", OURS) for n in range(15)])
    told = (await get(http, "boat/neighbours", start=[f"n{n}" for n in range(15)], depth=0)).json()
    assert (len(told["nodes"]), told["edges"]) == (16, [])


async def test_a_graph_that_nobody_has_open_is_503_and_says_so(http: httpx2.AsyncClient) -> None:
    for path in ("boat", "boat/neighbours"):
        response = await get(http, path)
        assert response.status_code == 503
        assert "NEO4J_URI" in response.json()["detail"]


async def test_a_walk_that_takes_too_long_is_given_up(
    http: httpx2.AsyncClient, graph: SqliteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pentad.services.gateway.memory.knowledge._WALK_S", 0.0)
    response = await get(http, "boat/neighbours")
    assert response.status_code == 503
    assert "less depth" in response.json()["detail"]


async def test_python_and_the_terminal_show_the_same(
    gateway: GatewayService, graph: SqliteGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    async with connect(gateway.address, "us-key") as agent:
        assert (await agent.inspection.memory_node("secret", user_id="ada")).text == "secret"
        around = await agent.inspection.memory_neighbours("boat", depth=1, strategy="astar")
        assert [each.id for each in around.nodes] == ["boat", "oslo"]
    asked: dict[str, Any] = {
        "id": "boat",
        "depth": None,
        "limit": None,
        "strategy": None,
        "user": None,
        "session": None,
    }
    args = argparse.Namespace(url=None, json=False, action="show", **asked)
    settings = Settings(pentad_url=gateway.address, pentad_api_key=SecretStr("us-key"))
    async with asyncio.timeout(20):
        assert await asyncio.to_thread(memory_command.run, args, settings) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fact · learned ")
    assert lines[1:4] == ["  The boat is green[31m", '  {"from": "crm"}', "  anchor-59"], "without what would colour it"
    assert "0.90  The boat is green[31m related_to oslo" in lines
    assert "  oslo  concept  oslo" in lines
