"""The registry of graphs over HTTP: who may change it, what is refused, names shared with instructions, drawings."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.entry_file import MOST_ENTRIES
from pentad.shared.keys import GRAPHS_REGISTRY, INSTRUCTIONS_REGISTRY
from pentad.shared.presence.published import GRAPHS, INSTRUCTIONS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_instructions import POET, problem
from tests.support.waiting import PATIENCE_S


def asking(name: str = "survey", **fields: Any) -> dict[str, Any]:
    """A graph of one question."""
    return {
        "name": name,
        "nodes": [{"key": "a", "kind": "ask", "question": "Well?"}],
        "entry": "a",
        "ends": ["a"],
    } | fields


def naming(name: str = "writer", **node: Any) -> dict[str, Any]:
    """A graph of one node that names others."""
    return asking(name, nodes=[{"key": "a", **node}])


async def graphs(http: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    found = (await http.get("/v1/graphs")).json()
    assert found["next"] is None
    return {item["name"]: item for item in found["items"]}


async def test_a_graph_is_registered_replaced_listed_drawn_and_removed(store: Store, http: httpx2.AsyncClient) -> None:
    made = await http.post("/v1/graphs", json=asking())
    assert (made.status_code, made.json()["source"], made.json()["warning"]) == (201, "registered", None)
    other = asking(edges=[{"from": "a", "to": "a", "when": "Nobody has answered."}])
    again = await http.post("/v1/graphs", json=other)
    assert again.status_code == 200
    assert again.json()["version"] != made.json()["version"]
    shown = (await http.get("/v1/graphs/survey")).json()
    assert {name: each for name, each in (await graphs(http)).items() if name != "plan_solve"} == {"survey": shown}
    assert shown["edges"] == other["edges"], "as it was written, without empty fields"
    drawn = await http.get("/v1/graphs/survey?format=mermaid")
    assert drawn.headers["content-type"] == "text/plain; charset=utf-8"
    assert drawn.text == mermaid(GraphSpec.model_validate(other))
    assert "there is only mermaid" in problem(await http.get("/v1/graphs/survey?format=dot"), 422)
    assert (await http.delete("/v1/graphs/survey")).status_code == 204
    assert problem(await http.delete("/v1/graphs/survey"), 404) == "there is no such graph"
    problem(await http.get("/v1/graphs/survey?format=mermaid"), 404)
    assert await store.call("HLEN", GRAPHS_REGISTRY) == 1, "nothing but the version is left"


async def test_a_name_is_an_instructions_or_a_graphs_and_the_other_is_told(http: httpx2.AsyncClient) -> None:
    assert (await http.post("/v1/instructions", json=POET)).status_code == 201
    said = problem(await http.post("/v1/graphs", json=asking("poet")), 409)
    assert said == "instruction poet is registered, and names are shared: delete it, or choose another name"
    assert "there is an instruction of this name" in problem(await http.get("/v1/graphs/poet"), 404)
    assert "there is an instruction of this name" in problem(await http.delete("/v1/graphs/poet"), 404)
    assert (await http.delete("/v1/instructions/poet")).status_code == 204
    assert (await http.post("/v1/graphs", json=asking("poet"))).status_code == 201
    assert "graph poet is registered, and names are shared" in problem(
        await http.post("/v1/instructions", json=POET), 409
    )
    assert "there is a graph of this name" in problem(await http.get("/v1/instructions/poet"), 404)
    assert "poet" not in {each["name"] for each in (await http.get("/v1/instructions")).json()["items"]}


async def test_a_registered_one_goes_before_a_plugins_of_the_other_kind_which_comes_back(
    store: Store, http: httpx2.AsyncClient
) -> None:
    await GRAPHS.publish(store, [GraphSpec.model_validate(asking("poet"))])
    await INSTRUCTIONS.publish(store, [Instruction(name="survey", system_prompt="Ask.")])
    assert "is a plugin's" in problem(await http.delete("/v1/graphs/poet"), 409)
    assert (await http.post("/v1/instructions", json=POET)).status_code == 201
    assert (await http.post("/v1/graphs", json=asking())).status_code == 201
    assert [(each["name"], each["source"]) for each in (await graphs(http)).values()] == [
        ("plan_solve", "built_in"),
        ("survey", "registered"),
    ]
    assert (await http.delete("/v1/instructions/poet")).status_code == 204
    assert (await graphs(http))["poet"]["source"] == "plugin"


async def test_a_graph_may_stand_in_the_place_of_the_executor_and_of_no_instruction_that_services_ask(
    http: httpx2.AsyncClient,
) -> None:
    assert (await http.post("/v1/graphs", json=asking("executor"))).status_code == 201
    assert "services ask the instruction 'router'" in problem(await http.post("/v1/graphs", json=asking("router")), 422)


async def test_the_file_goes_before_what_is_registered(redis_url: str, tmp_path: Path) -> None:
    (file := tmp_path / "i.json").write_text(json.dumps({"instructions": [POET], "graphs": [asking()]}))
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_instructions=file) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        assert (await graphs(http))["survey"]["source"] == "file"
        for path, body in (
            ("graphs", asking()),
            ("instructions", {**POET, "name": "survey"}),
            ("graphs", asking("poet")),
        ):
            assert "PENTAD_INSTRUCTIONS" in problem(await http.post(f"/v1/{path}", json=body), 409)
        assert "PENTAD_INSTRUCTIONS" in problem(await http.delete("/v1/graphs/survey"), 409)


async def test_what_a_graph_names_must_be_there_but_its_tools(store: Store, http: httpx2.AsyncClient) -> None:
    unknown = [
        ({"kind": "llm", "instruction": "nobody"}, "nodes[0] (a).instruction: there is no instruction 'nobody'"),
        ({"kind": "graph", "graph": "nobody"}, "nodes[0] (a).graph: there is no graph 'nobody'"),
        ({"kind": "graph", "graph": "executor"}, "nodes[0] (a).graph: 'executor' is an instruction"),
        ({"kind": "graph", "graph": "writer"}, "the graph would run itself: writer -> writer"),
        ({"kind": "llm", "system_prompt": "x", "model": "fast"}, "nodes[0] (a).model: there is no chat model 'fast'"),
    ]
    for node, told in unknown:
        assert told in problem(await http.post("/v1/graphs", json=naming(**node)), 422)
    assert not await store.call("EXISTS", GRAPHS_REGISTRY), "nothing was written"
    made = await http.post("/v1/graphs", json=naming(kind="tool", tool="sing"))
    assert (made.status_code, made.json()["warning"]) == (201, "no worker has these tools now: sing")
    assert (await http.post("/v1/graphs", json=naming("second", kind="graph", graph="writer"))).status_code == 201
    back = await http.post("/v1/graphs", json=naming(kind="graph", graph="second"))
    assert "the graph would run itself: writer -> second -> writer" in problem(back, 422)


async def test_the_models_that_a_node_names_stay_as_long_as_it_does(http: httpx2.AsyncClient) -> None:
    for model in ("fast", "slow"):
        await http.post("/v1/models", json={"id": model})
    nodes = [{"key": key, "kind": "llm", "system_prompt": "x", "model": key} for key in ("fast", "slow", "default")]
    edges = [{"from": "fast", "to": "slow"}, {"from": "slow", "to": "default"}]
    body = asking(nodes=nodes, edges=edges, entry="fast", ends=["default"])
    assert (await http.post("/v1/graphs", json=body)).status_code == 201
    for model in ("fast", "slow"):
        assert "graph survey asks it" in problem(await http.delete(f"/v1/models/{model}"), 409)
    assert (await http.delete("/v1/graphs/survey")).status_code == 204
    assert (await http.delete("/v1/models/slow")).status_code == 204


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{}", 422),
        (json.dumps(asking("a b")).encode(), 422),
        (json.dumps(asking("@version")).encode(), 422),
        (json.dumps(asking(nodes=[])).encode(), 422),
        (json.dumps(asking(edges=7)).encode(), 422),
        (json.dumps(asking(ends=["x" * 1000])).encode(), 422),
        (json.dumps(asking(promt="misspelled")).encode(), 422),
        (json.dumps(naming(kind="ask", question="x", promt="misspelled")).encode(), 422),
        (json.dumps(naming(kind="video")).encode(), 422),
        (json.dumps(naming(kind="ask", question="x" * 65_536) | {"nodes": [{}] * 201}).encode(), 422),
        (json.dumps(asking(edges=[{"from": "x", "to": "y"}] * 1_000)).encode(), 422),
        (json.dumps(asking(state_schema={"type": "objekt"})).encode(), 422),
        (json.dumps(asking(state_schema={"type": "object", "pattern": "("})).encode(), 422),
        (json.dumps(naming(kind="tool", tool="t", args={"x": "y" * 300_000})).encode(), 422),
        (json.dumps(naming(kind="tool", tool="t", args={"x": "y" * (1 << 20)})).encode(), 413),
        (json.dumps(naming(kind="tool", tool="t"))[:-2].encode(), 400),
        (b'{"nodes":' + b"[" * 9999 + b"]" * 9999 + b"}", 400),
    ],
)
async def test_a_body_that_is_no_graph_is_refused_and_changes_nothing(
    store: Store, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    said = problem(await http.post("/v1/graphs", content=body), status)
    assert len(said) < 1100
    assert not await store.call("EXISTS", GRAPHS_REGISTRY, INSTRUCTIONS_REGISTRY)


async def test_there_is_an_end_to_how_many_can_be_registered(store: Store, http: httpx2.AsyncClient) -> None:
    rows = (word for n in range(MOST_ENTRIES) for word in (f"i{n}", json.dumps(asking(f"i{n}"))))
    await store.call("HSET", GRAPHS_REGISTRY, *rows)
    assert "registered graphs already: delete one" in problem(await http.post("/v1/graphs", json=asking()), 409)
    assert (await http.post("/v1/graphs", json=asking("i7"))).status_code == 200


@pytest.mark.parametrize("name", ["%20", "@version", "%2e%2e", "x" * 200, "a%00b"])
async def test_what_is_no_name_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    for ask in (http.get, http.delete):
        problem(await ask(f"/v1/graphs/{name}"), 404)


async def test_everybody_with_a_key_may_look_and_the_operator_alone_may_change(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with (
        running(redis_url, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, look, change in ((None, 401, 401), ("no", 401, 401), ("k", 200, 403), ("boss", 200, 201)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await http.get("/v1/graphs", headers=headers)).status_code == look
            assert (await http.post("/v1/graphs", json=asking(), headers=headers)).status_code == change
            removed = await http.delete("/v1/graphs/survey", headers=headers)
            assert removed.status_code == (204 if change == 201 else change)


async def test_the_document_describes_graphs_as_they_are_written(http: httpx2.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert {*document["paths"]["/v1/graphs"]} == {"get", "post"}
    assert {*document["paths"]["/v1/graphs/{graph}"]} == {"get", "delete"}
    schemas = document["components"]["schemas"]
    assert {"from", "to", "when", "where", "check"} == {*schemas["Edge"]["properties"]}
    kinds = schemas["GraphSpec"]["properties"]["nodes"]["items"]["discriminator"]["mapping"]
    assert {*kinds} == {"llm", "tool", "graph", "parallel", "map", "ask"}
