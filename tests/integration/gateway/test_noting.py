"""What people add by hand rests on a statement that opens, is found by searches, and goes when they take it away."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.client.agent import connect
from pentad.contracts.ids import rfc3339
from pentad.errors import Refused
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.gateway.app import GatewayService
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode
from pentad.shared.graph.merging import edge_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.archiver_client import ArchiverGraph, ArchiverVectors
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.memory.remembered import everything
from tests.integration.memory.serving import serving
from tests.support.graph_export import exported
from tests.support.waiting import PATIENCE_S

US, THEM = ({"authorization": f"Bearer {key}"} for key in ("us-key", "them-key"))
ADA = Owner("us", "ada")
FERRY = {"kind": "fact", "text": "The ferry to Bergen leaves at nine.", "user_id": "ada", "importance": 0.8}


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayService]:
    """One that waits longer for the archiver than a busy machine stalls."""
    for adapter in (ArchiverGraph, ArchiverVectors):
        patient = partial(adapter, timeout_s=PATIENCE_S)
        monkeypatch.setattr(f"pentad.shared.memory.stores.{adapter.__name__}", patient)
    keys = "us-key:us,them-key:them"
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_api_keys=keys) as service:
        yield service


class Stores:
    """What an archiver has open, and a graph that fails when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.vectors, self.graph = ChildVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")


@pytest.fixture
async def stores(store: Store, tmp_path: Path) -> AsyncIterator[Stores]:
    made = Stores(tmp_path)
    async with serving(store, MemoryServer(store, made.vectors, made.graph).handle):
        yield made
    await made.vectors.aclose()
    await made.graph.aclose()


async def add(
    http: httpx2.AsyncClient, body: dict[str, Any], what: str = "nodes", keys: dict[str, str] = US
) -> httpx2.Response:
    return await http.post(f"/v1/memory/{what}", json=body, headers=keys)


async def found(http: httpx2.AsyncClient, question: str, keys: dict[str, str] = US, **query: Any) -> list[Any]:
    response = await http.get("/v1/memory/search", params={"q": question, **query}, headers=keys)
    hits: list[Any] = response.json()["hits"]
    return hits


async def away(*given: Any) -> None:
    """A store that takes nothing now."""
    raise MemoryOutageError("away: try again later")


async def test_what_a_person_knows_is_found_and_its_anchor_opens_the_statement(
    http: httpx2.AsyncClient, stores: Stores
) -> None:
    response = await add(http, FERRY)
    node = response.json()
    assert (response.status_code, node["kind"], node["text"], node["user_id"], node["importance"]) == (
        201, "fact", FERRY["text"], "ada", 0.8
    )  # fmt: skip
    [hit] = await found(http, "When does the ferry leave?", user_id="ada")
    assert (hit["id"], hit["kind"], hit["type"], hit["content"]) == (node["id"], "semantic", "fact", FERRY["text"])
    assert hit["anchor"] == node["supports"][0]["anchor"]
    opened = await http.post("/v1/memory/expand", json={"anchor": hit["anchor"]}, headers=US)
    assert opened.json()["focus"]["content"] == FERRY["text"]
    assert (await http.get(f"/v1/tasks/{hit['task_id']}", headers=US)).json()["user_id"] == "ada"


async def test_it_is_its_owners_alone(http: httpx2.AsyncClient, stores: Stores) -> None:
    node = (await add(http, FERRY)).json()
    for keys, query in ((US, {}), (US, {"user_id": "bob"}), (THEM, {"user_id": "ada"})):
        assert await found(http, "ferry", keys, **query) == []
        path = f"/v1/memory/nodes/{node['id']}"
        for method in ("GET", "DELETE"):
            assert (await http.request(method, path, params=query, headers=keys)).status_code == 404
    foreign = await http.post("/v1/memory/expand", json={"anchor": node["supports"][0]["anchor"]}, headers=THEM)
    assert foreign.status_code == 404


async def test_said_again_it_is_the_same_and_anothers_is_another(http: httpx2.AsyncClient, stores: Stores) -> None:
    await add(http, FERRY)
    once = await exported(stores.graph, "us"), await everything(stores.vectors, "us")
    assert (await add(http, FERRY)).json()["supported_by"] == 1
    assert (await exported(stores.graph, "us"), await everything(stores.vectors, "us")) == once
    other = (await add(http, FERRY | {"user_id": "bob"})).json()
    shared = (await add(http, FERRY | {"user_id": None})).json()
    assert len(await everything(stores.vectors, "us")) == 3
    assert {other["user_id"], shared["user_id"]} == {"bob", None}


async def test_metadata_is_told_wherever_its_node_is_and_nothing_searches_it(
    http: httpx2.AsyncClient, stores: Stores
) -> None:
    kept = {"来源": "crm", "rows": [1, 2.5, None, {"deep": True}]}
    node = (await add(http, FERRY | {"metadata": kept})).json()
    assert node["metadata"] == kept
    path = f"/v1/memory/nodes/{node['id']}"
    assert (await http.get(path, params={"user_id": "ada"}, headers=US)).json()["metadata"] == kept
    assert [hit["metadata"] for hit in await found(http, "ferry", user_id="ada")] == [kept]
    plain = (await add(http, FERRY | {"text": "A zebra is striped."})).json()
    assert plain["metadata"] == {}
    hits = {hit["id"]: hit for hit in await found(http, "crm deep rows zebra", user_id="ada", strategy="none")}
    assert "metadata" not in hits[plain["id"]]
    assert hits[plain["id"]]["score"] > hits[node["id"]]["score"] if node["id"] in hits else True
    edge = {"source": node["id"], "target": plain["id"], "type": "related_to", "weight": 0.9, "user_id": "ada"}
    assert (await add(http, edge | {"metadata": kept}, "edges")).json()["metadata"] == kept
    around = (await http.get(f"{path}/neighbours", params={"user_id": "ada"}, headers=US)).json()
    assert [each["metadata"] for each in (*around["nodes"], *around["edges"])] == [kept, {}, kept]
    walked = await found(http, "zebra", user_id="ada", strategy="bfs")
    assert [hit["metadata"] for hit in walked if hit["id"] == node["id"]] == [kept], "also where a walk comes to it"


async def test_said_again_metadata_stays_unless_other_is_given(http: httpx2.AsyncClient, stores: Stores) -> None:
    node = (await add(http, FERRY | {"metadata": {"a": 1, "b": 1}})).json()
    other = (await add(http, FERRY | {"text": "Bergen is rainy."})).json()
    edge = {"source": node["id"], "target": other["id"], "type": "part_of", "user_id": "ada"}
    for body, what in ((FERRY, "nodes"), (edge, "edges")):
        for given, kept in (
            ({"metadata": {"a": 1}}, {"a": 1}), ({"metadata": {"c": 2}}, {"c": 2}), ({}, {"c": 2}),
            ({"metadata": None}, {"c": 2}), ({"metadata": {}}, {}), ({}, {}),
        ):  # fmt: skip
            assert (await add(http, body | given, what)).json()["metadata"] == kept
            if what == "nodes":
                told = [hit for hit in await found(http, "ferry", user_id="ada") if hit["id"] == node["id"]]
                assert [hit.get("metadata", {}) for hit in told] == [kept]


async def test_an_edge_that_is_said_again_is_told_as_it_is_kept(http: httpx2.AsyncClient, stores: Stores) -> None:
    one, other = [(await add(http, FERRY | {"text": text})).json() for text in ("It is green.", "It is fast.")]
    edge = {"source": one["id"], "target": other["id"], "type": "part_of", "user_id": "ada"}
    first = (await add(http, edge | {"weight": 0.9}, "edges")).json()
    assert (await add(http, edge | {"weight": 0.3}, "edges")).json() == first
    back = (await add(http, edge | {"source": other["id"], "target": one["id"]}, "edges")).json()
    assert (back["id"] != first["id"], back["weight"]) == (True, 0.5)


class EarlierGraph:
    """The graph of an archiver of the version before: it has no `between`, and drops fields that it does not know."""

    def __init__(self, graph: SqliteGraph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        if name == "between":
            raise AttributeError(name)
        return getattr(self._graph, name)

    async def upsert_nodes(self, nodes: list[MemoryNode]) -> None:
        await self._graph.upsert_nodes([replace(node, metadata=None) for node in nodes])

    async def upsert_edges(self, edges: list[MemoryEdge]) -> None:
        await self._graph.upsert_edges([replace(edge, metadata=None) for edge in edges])


async def test_beside_an_archiver_of_the_version_before_all_else_is_kept_and_this_is_told(
    http: httpx2.AsyncClient, store: Store, tmp_path: Path
) -> None:
    made = Stores(tmp_path)
    earlier: Any = EarlierGraph(made.graph)
    async with serving(store, MemoryServer(store, made.vectors, earlier).handle):
        node, other = (await add(http, FERRY)).json(), (await add(http, FERRY | {"text": "Bergen is rainy."})).json()
        edge = {"source": node["id"], "target": other["id"], "type": "part_of", "user_id": "ada"}
        told = (await add(http, edge, "edges")).json()
        assert told["id"] == edge_id(ADA, node["id"], other["id"], EdgeType.PART_OF)
        for body, what in ((FERRY, "nodes"), (edge, "edges")):
            refused = await add(http, body | {"metadata": {"a": 1}}, what)
            assert (refused.status_code, "without its metadata" in refused.json()["detail"]) == (503, True)
        around = f"/v1/memory/nodes/{node['id']}/neighbours"
        asked: dict[str, Any] = {"user_id": "ada", "type": "part_of"}
        assert (await http.get(around, params=asked, headers=US)).json()["edges"] == [told]
        assert (await http.get(around, params=asked | {"type": "followed_by"}, headers=US)).json()["edges"] == []
    async with serving(store, MemoryServer(store, made.vectors, made.graph).handle):
        for body, what in ((FERRY, "nodes"), (edge, "edges")):
            assert (await add(http, body | {"metadata": {"a": 1}}, what)).json()["metadata"] == {"a": 1}
    await made.vectors.aclose()
    await made.graph.aclose()


async def test_an_outage_between_the_writes_is_mended_by_the_same_call(
    http: httpx2.AsyncClient, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = (await add(http, FERRY | {"user_id": "calm"})).json()
    with monkeypatch.context() as broken:
        broken.setattr(stores.vectors, "upsert", away)
        assert (await add(http, FERRY)).status_code == 503
    assert await found(http, "ferry", user_id="ada") == []
    mended = (await add(http, FERRY)).json()
    assert mended["supported_by"] == calm["supported_by"] == 1
    assert [hit["id"] for hit in await found(http, "ferry", user_id="ada")] == [mended["id"]]


async def test_what_is_contradicted_is_true_no_more_and_stays(http: httpx2.AsyncClient, stores: Stores) -> None:
    old = (await add(http, FERRY)).json()
    new = (await add(http, FERRY | {"text": "The ferry to Bergen leaves at ten."})).json()
    edge = {"source": new["id"], "target": old["id"], "type": "contradicts", "weight": 1, "user_id": "ada"}
    for _ in range(2):
        response = await add(http, edge, "edges")
        assert response.status_code == 201
    assert response.json() == {
        "source": new["id"], "target": old["id"], "type": "contradicts", "weight": 1.0, "user_id": "ada",
        "session_id": None, "metadata": {}, "id": edge_id(ADA, new["id"], old["id"], EdgeType.CONTRADICTS),
    }  # fmt: skip
    [kept] = await stores.graph.edges(ADA, [old["id"]], 9)
    opened = await http.post("/v1/memory/expand", json={"anchor": kept.supports[0].anchor}, headers=US)
    assert opened.json()["focus"]["content"] == f"{new['text']}\ncontradicts\n{old['text']}"
    nodes = {each.id: each for each in await stores.graph.nodes(ADA, [old["id"], new["id"]])}
    assert (nodes[old["id"]].true_until, nodes[new["id"]].true_until) == (kept.supports[0].at, None)


async def test_what_is_contradicted_leaves_todays_hits_and_is_found_as_it_was(
    http: httpx2.AsyncClient, stores: Stores
) -> None:
    old = (await add(http, FERRY)).json()
    new = (await add(http, FERRY | {"text": "The ferry to Bergen leaves at ten."})).json()
    then = (await found(http, "ferry", user_id="ada"))[0]["true_from"]
    edge = {"source": new["id"], "target": old["id"], "type": "contradicts", "user_id": "ada"}
    assert (await add(http, edge, "edges")).status_code == 201
    [hit] = await found(http, "When does the ferry leave?", user_id="ada")
    assert (hit["id"], "true_until" in hit) == (new["id"], False)
    ended = await stores.graph.nodes(ADA, [old["id"]])
    as_of = rfc3339((ended[0].true_until or 0) - 1)
    past = {each["id"]: each for each in await found(http, "When does the ferry leave?", user_id="ada", as_of=as_of)}
    assert past[old["id"]]["true_until"] == rfc3339(ended[0].true_until or 0)
    assert past[old["id"]]["anchor"] == old["supports"][0]["anchor"]
    assert await found(http, "ferry", user_id="ada", as_of="2001-01-01T00:00:00Z") == []
    assert then <= as_of


async def test_a_time_that_is_told_with_a_fact_counts(http: httpx2.AsyncClient, stores: Stores) -> None:
    told = {"true_from": "2020-01-01T00:00:00Z", "true_until": "2022-01-01T00:00:00Z"}
    old = (await add(http, FERRY | told)).json()
    new = (await add(http, FERRY | {"text": "The ferry leaves at ten.", "true_from": "2022-01-01T00:00:00Z"})).json()
    assert [hit["id"] for hit in await found(http, "ferry", user_id="ada")] == [new["id"]]
    past = await found(http, "ferry", user_id="ada", as_of="2021-06-01T00:00:00Z")
    assert [hit["id"] for hit in past] == [old["id"]]


async def test_an_outage_between_an_end_and_its_point_is_mended_by_the_same_call(
    http: httpx2.AsyncClient, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (await add(http, FERRY)).json()
    new = (await add(http, FERRY | {"text": "The ferry to Bergen leaves at ten."})).json()
    edge = {"source": new["id"], "target": old["id"], "type": "contradicts", "user_id": "ada"}
    with monkeypatch.context() as broken:
        broken.setattr(stores.vectors, "upsert", away)
        assert (await add(http, edge, "edges")).status_code == 503
    assert (await add(http, edge, "edges")).status_code == 201
    assert [hit["id"] for hit in await found(http, "ferry", user_id="ada")] == [new["id"]]


async def test_a_walk_adds_what_lies_beside_the_hits(
    gateway: GatewayService, http: httpx2.AsyncClient, stores: Stores
) -> None:
    ferry = (await add(http, FERRY)).json()
    ticket = (await add(http, FERRY | {"text": "Tickets cost forty crowns."})).json()
    edge = {"source": ferry["id"], "target": ticket["id"], "type": "related_to", "weight": 0.9, "user_id": "ada"}
    await add(http, edge, "edges")
    question = "When does it leave for Bergen?"
    for strategy in ("bfs", "dfs", "astar", "auto"):
        hits = await found(http, question, user_id="ada", strategy=strategy)
        assert [hit["id"] for hit in hits] == [ferry["id"], ticket["id"]]
        assert (hits[1]["parts"]["walk"], hits[1]["anchor"]) == (hits[1]["score"], ticket["supports"][0]["anchor"])
        told = {"source": ferry["id"], "target": ticket["id"], "type": "related_to", "weight": 0.9}
        assert ("path" in hits[0], hits[1]["path"]) == (False, [told])
    for strategy in ("none", "bfs"):
        hits = await found(http, question, user_id="ada", strategy=strategy, depth=0)
        assert not any("walk" in hit["parts"] for hit in hits)
    async with connect(gateway.address, api_key="us-key") as agent:
        recalled = await agent.inspection.recall(question, user_id="ada", strategy="astar", depth=1)
        assert ([hit.id for hit in recalled.hits], recalled.tasks) == ([ferry["id"], ticket["id"]], [])
        assert await agent.inspection.search_memory(question, user_id="ada") == recalled.hits


async def test_an_edge_needs_ends_that_its_owner_sees(http: httpx2.AsyncClient, stores: Stores) -> None:
    adas, shared = (await add(http, FERRY)).json(), (await add(http, FERRY | {"user_id": None})).json()
    edge = {"source": adas["id"], "target": shared["id"], "type": "related_to"}
    for keys, user in ((US, None), (US, "bob"), (THEM, "ada")):
        assert (await add(http, edge | {"user_id": user}, "edges", keys)).status_code == 404
    assert (await add(http, edge | {"user_id": "ada", "text": "both say it"}, "edges")).status_code == 201


async def test_a_node_that_is_taken_away_is_not_found_and_leaves_its_statement(
    http: httpx2.AsyncClient, stores: Stores
) -> None:
    node = (await add(http, FERRY)).json()
    other = (await add(http, FERRY | {"text": "Bergen is rainy."})).json()
    await add(http, {"source": node["id"], "target": other["id"], "type": "part_of", "user_id": "ada"}, "edges")
    path = f"/v1/memory/nodes/{node['id']}"
    assert (await http.delete(path, params={"user_id": "ada"}, headers=US)).status_code == 204
    assert (await http.delete(path, params={"user_id": "ada"}, headers=US)).status_code == 404
    assert [hit["id"] for hit in await found(http, "ferry to Bergen", user_id="ada")] == [other["id"]]
    assert (await stores.graph.tally("us")).edges == 0
    anchor = node["supports"][0]["anchor"]
    assert (await http.post("/v1/memory/expand", json={"anchor": anchor}, headers=US)).status_code == 200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "kind"),
        ({"kind": "fact"}, "text"),
        ({"kind": "entity", "text": "Oslo"}, "kind"),
        ({"kind": "task", "text": "task-0-1"}, "kind"),
        ({"kind": ["fact"], "text": "a"}, "kind"),
        ({"kind": "fact", "text": "a", "user": "ada"}, "'user' is none of kind, text, user_id"),
        ({"kind": "fact", "text": "a", "metadata": []}, "metadata: a JSON object"),
        ({"kind": "fact", "text": "a", "metadata": "{}"}, "metadata: a JSON object"),
        ({"kind": "fact", "text": "a", "metadata": {"a": "x" * 4_090}}, "metadata: 4098 bytes"),
        ({"kind": "fact", "text": "a", "metadata": {str(n): n for n in range(65)}}, "metadata: 65 keys"),
        ({"kind": "fact", "text": "a", "metadata": {"a": [[[[[[[[]]]]]]]]}}, "metadata: objects and lists"),
        ({"kind": "fact", "text": 7}, "text"),
        ({"kind": "fact", "text": " ?! "}, "text"),
        ({"kind": "fact", "text": "x" * 2_001}, "text"),
        ({"kind": "fact", "text": "a", "user_id": "a b"}, "user_id"),
        ({"kind": "fact", "text": "a", "user_id": 7}, "user_id"),
        ({"kind": "fact", "text": "a", "importance": 1.01}, "importance"),
        ({"kind": "fact", "text": "a", "importance": True}, "importance"),
        ({"kind": "fact", "text": "a", "true_from": "yesterday"}, "true_from"),
        ({"kind": "fact", "text": "a", "true_until": 7}, "true_until"),
        ({"kind": "fact", "text": "a", "true_from": "1969-01-01T00:00:00Z"}, "true_from"),
        ({"kind": "fact", "text": "a", "true_from": "2030-01-02T00:00:00Z", "true_until": "2030-01-01T00:00:00Z"},
         "true_until"),
    ],
)  # fmt: skip
async def test_a_wrong_node_is_refused_in_words(http: httpx2.AsyncClient, body: dict[str, Any], named: str) -> None:
    refused = await add(http, body)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(named)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "source"),
        ({"source": "a", "target": "../b"}, "target"),
        ({"source": "a", "target": "a", "type": "related_to"}, "target"),
        ({"source": "a", "target": "b", "type": "related_to", "user": "ada"}, "'user' is none of source, target"),
        ({"source": "a", "target": "b", "type": "loves"}, "type"),
        ({"source": "a", "target": "b", "type": "related_to", "weight": -0.1}, "weight"),
        ({"source": "a", "target": "b", "type": "related_to", "weight": "1"}, "weight"),
        ({"source": "a", "target": "b", "type": "related_to", "text": ""}, "text"),
        ({"source": "a", "target": "b", "type": "related_to", "metadata": 7}, "metadata: a JSON object"),
    ],
)
async def test_a_wrong_edge_is_refused_in_words(http: httpx2.AsyncClient, body: dict[str, Any], named: str) -> None:
    refused = await add(http, body, "edges")
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(named)


@pytest.mark.parametrize("text", ["\x00fact", "\u202efact", "好" * 2_000, "'; DROP TABLE node; --", "a\u0301" * 1_000])
async def test_hostile_texts_are_kept_as_they_are(http: httpx2.AsyncClient, stores: Stores, text: str) -> None:
    node = (await add(http, {"kind": "concept", "text": text})).json()
    assert (await http.get(f"/v1/memory/nodes/{node['id']}", headers=US)).json()["text"] == text


@pytest.mark.parametrize("value", [b"NaN", b"[Infinity]", b"1e999", b'"\\ud800"', b"[" * 5_000 + b"]" * 5_000])
async def test_metadata_that_is_no_json_is_refused(http: httpx2.AsyncClient, stores: Stores, value: bytes) -> None:
    body = b'{"kind": "fact", "text": "It is green.", "metadata": {"a": ' + value + b"}}"
    refused = await http.post("/v1/memory/nodes", content=body, headers=US | {"content-type": "application/json"})
    assert refused.status_code in (400, 422)
    assert (await stores.graph.tally("us")).nodes == 0


async def test_python_adds_joins_and_takes_away(gateway: GatewayService, stores: Stores) -> None:
    async with connect(gateway.address, "us-key") as agent:
        one = await agent.management.add_node("fact", "The boat is green", importance=1)
        other = await agent.management.add_node("concept", "Boats")
        edge = await agent.management.add_edge(one.id, other.id, "part_of", weight=0.7, metadata={"why": "seen"})
        assert (edge.type, edge.weight, edge.metadata) == ("part_of", 0.7, {"why": "seen"})
        assert (await agent.inspection.memory_neighbours(one.id)).edges == [edge]
        again = await agent.memory.semantic.add("The boat is green", metadata={"来源": ["crm"]})
        assert (again.id, again.metadata) == (one.id, {"来源": ["crm"]})
        assert await agent.inspection.memory_node(one.id) == again
        assert again.source is not None
        assert (again.source.by_hand, again.source.task_id) == (True, again.supports[-1].task_id)
        assert (await agent.inspection.memory_stats()).edges == 1
        around = agent.inspection.memory_neighbours
        assert [node.id for node in (await around(one.id, edge_type="part_of")).nodes] == [one.id, other.id]
        assert [node.id for node in (await around(one.id, edge_type="contradicts")).nodes] == [one.id]
        with pytest.raises(Refused, match="as_of"):
            await around(one.id, as_of="yesterday")
        await agent.management.delete_node(one.id)
        assert (await agent.inspection.memory_stats()).nodes == 1
