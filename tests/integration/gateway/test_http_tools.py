"""Endpoints of HTTP over REST, from Python and on the command line: who registers them, what is refused and shown."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from pentad.cli.main import main
from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.operator.http_tools import MAX_HTTP_TOOLS
from pentad.shared.keys import HTTP_TOOLS_REGISTRY
from pentad.shared.presence.published import TOOLS
from pentad.shared.registries.registrations import REGISTERED_HTTP_TOOLS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.integration.gateway.test_tool_servers import asking
from tests.support.outside.web_server import WebServer, redirect, reply, web_server
from tests.unit.gateway.test_api_document import PETS, WRONG

Json = dict[str, Any]
INVOICE: Json = {
    "name": "invoice",
    "description": "Shows an invoice.",
    "url": "https://crm.example/private-path/{id}",
    "method": "GET",
    "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "headers": {"Authorization": "Bearer {{secret:CRM}} literal"},
}
PET_NAMES = ["addPet", "delete_pets_petId", "getPet", "putPet"]


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    async with web_server() as server:
        yield server


async def names(store: Store) -> list[str]:
    return [each.name for each in (await REGISTERED_HTTP_TOOLS.read(store)).entries]


async def tool_command(
    gateway: GatewayService, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """Run `pentad tool`, and return its exit code and what it says."""
    code = await asyncio.to_thread(main, ["tool", *words, "--url", gateway.address])
    said = capsys.readouterr()
    return code, said.out, said.err


async def listed(http: httpx2.AsyncClient) -> dict[str, Json]:
    return {each["name"]: each for each in (await http.get("/v1/tools")).json()["items"]}


async def test_an_endpoint_is_registered_replaced_and_removed(store: Store, http: httpx2.AsyncClient) -> None:
    first = await http.post("/v1/tools", json=INVOICE)
    assert first.status_code == 201
    assert first.json() == {
        "items": [
            {
                "name": "invoice",
                "method": "GET",
                "place": "https://crm.example",
                "effect": "pure",
                "secrets": ["CRM"],
            }
        ],
        "left_out": [],
        "left_out_count": 0,
        "warning": None,
    }
    assert (await http.post("/v1/tools", json=INVOICE | {"effect": "unsafe"})).status_code == 200
    shown = (await listed(http))["invoice"]
    assert (shown["effect"], shown["alive"], shown["seen_at"], shown["secrets"]) == ("unsafe", False, None, ["CRM"])
    assert shown["endpoint"] == {"method": "GET", "place": "https://crm.example", "problem": None}
    assert (await http.delete("/v1/tools/invoice")).status_code == 204
    assert problem(await http.delete("/v1/tools/invoice"), 404) == "there is no such registered tool"
    assert await names(store) == []


async def test_an_endpoint_is_shown_without_what_may_be_secret(http: httpx2.AsyncClient) -> None:
    made = await http.post("/v1/tools", json=INVOICE)
    for text in (made.text, (await http.get("/v1/tools")).text):
        for hidden in ("literal", "private-path"):
            assert hidden not in text


async def test_the_operations_of_a_document_are_registered_together(store: Store, http: httpx2.AsyncClient) -> None:
    made = await http.post("/v1/tools", json={"openapi": PETS | {"security": [{"k": []}]}})
    assert made.status_code == 201
    assert sorted(each["name"] for each in made.json()["items"]) == PET_NAMES
    assert "give them in headers" in made.json()["warning"]
    assert await names(store) == PET_NAMES
    body = {"openapi": PETS, "operations": ["getPet"], "prefix": "p_", "headers": {"X": "{{secret:K}}"}, "timeout_s": 5}
    assert (await http.post("/v1/tools", json=body)).json()["items"][0]["secrets"] == ["K"]
    assert await names(store) == sorted([*PET_NAMES, "p_getPet"])


async def test_a_document_is_read_from_its_address(store: Store, redis_url: str, web: WebServer) -> None:
    web.answers["/moved"] = redirect("/api/openapi.json")
    web.answers["/api/openapi.json"] = reply(
        json.dumps(PETS | {"servers": [{"url": "v2"}]}).encode(), "application/json"
    )
    async with asking(redis_url, pentad_web_allow=web.place) as http:
        made = await http.post("/v1/tools", json={"openapi": f"{web.url}/api/openapi.json", "operations": ["getPet"]})
        assert made.status_code == 201, made.text
        (entry,) = (await REGISTERED_HTTP_TOOLS.read(store)).entries
        assert entry.url == f"{web.url}/api/v2/pets/{{petId}}"
        assert (await http.post("/v1/tools", json={"openapi": f"{web.url}/moved"})).status_code == 201


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(b"openapi: 3.0.0", "application/yaml"), "no JSON (YAML is not read)"),
        (reply(b"[]", "application/json"), "no JSON object"),
        (reply(b"x" * (3 << 20), "application/json"), "make a smaller one"),
        (reply(b"[" * 200_000, "application/json"), "no JSON"),
        (reply(b"gone", status="404 Not Found"), "answered 404"),
        (redirect("http://127.0.0.1:1/"), "loopback"),
    ],
)
async def test_a_document_that_cannot_be_read_is_told(answer: bytes, said: str, redis_url: str, web: WebServer) -> None:
    web.answers["/d"] = answer
    async with asking(redis_url, pentad_web_allow=web.place) as http:
        assert said in problem(await http.post("/v1/tools", json={"openapi": f"{web.url}/d"}), 422)


async def test_a_document_inside_is_not_read(http: httpx2.AsyncClient, web: WebServer) -> None:
    refused = problem(await http.post("/v1/tools", json={"openapi": f"{web.url}/d"}), 422)
    assert "loopback" in refused
    assert web.received == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "name"),
        ({"name": "x"}, "url"),
        (INVOICE | {"name": "a b"}, "name"),
        (INVOICE | {"url": "http://u:p@h/{id}"}, "url: must not hold a user name"),
        (INVOICE | {"headers": {"Cookie": "hunter2\r\n"}}, "headers: the value of Cookie"),
        (
            INVOICE | {"parameters": {"type": "object", "properties": {"id": {"type": 7}}, "required": ["id"]}},
            "no JSON schema",
        ),
        (
            INVOICE | {"parameters": {"type": "object", "properties": {"id": {"$ref": "#"}}, "required": ["id"]}},
            "for ever",
        ),
        (INVOICE | {"colour": "red"}, "colour"),
        ({"openapi": 7}, "openapi"),
        ({"openapi": "file:///etc/passwd"}, "begin with http"),
        ({"openapi": PETS, "name": "x"}, "name"),
        ({"openapi": PETS, "prefix": "a b"}, "prefix"),
        ({"openapi": PETS, "effects": {"getPet": "mild"}}, "effects"),
        ({"openapi": PETS, "effects": {"nope": "pure"}}, "no operation 'nope'"),
        ({"openapi": PETS, "operations": []}, "no operation of the document can be a tool"),
        ({"openapi": PETS, "url": "gopher://x"}, "url"),
        ({"openapi": PETS, "headers": {"Host": "x"}}, "headers"),
        *(({"openapi": given}, said) for _, given, said in WRONG),
    ],
)
async def test_what_cannot_be_registered_is_refused_with_its_reason(
    body: Json, said: str, store: Store, http: httpx2.AsyncClient
) -> None:
    refused = problem(await http.post("/v1/tools", json=body), 422)
    assert said in refused
    assert "hunter2" not in refused
    assert len(refused) <= 1_000
    assert await store.call("EXISTS", HTTP_TOOLS_REGISTRY) == 0


async def test_a_name_is_one_tools(store: Store, http: httpx2.AsyncClient) -> None:
    await TOOLS.publish(store, [ToolSpec(name="getPet"), ToolSpec(name="invoice", registered=True)])
    assert (await http.post("/v1/tools", json=INVOICE)).status_code == 201
    refused = problem(await http.post("/v1/tools", json={"openapi": PETS}), 409)
    assert "tools of these names: getPet; choose another name, or a prefix" in refused
    assert await names(store) == ["invoice"], "all or none"
    assert "of a plug-in or a server" in problem(await http.delete("/v1/tools/getPet"), 409)


async def test_a_tool_that_another_hides_is_told(store: Store, http: httpx2.AsyncClient) -> None:
    await http.post("/v1/tools", json=INVOICE)
    await TOOLS.publish(store, [ToolSpec(name="invoice")])
    assert (await listed(http))["invoice"]["endpoint"]["problem"].startswith("a tool of a worker has this name")


async def test_there_are_so_many_tools_at_most(store: Store, http: httpx2.AsyncClient) -> None:
    for start in range(0, MAX_HTTP_TOOLS, 128):
        paths = {f"/{n}": {"get": {"operationId": f"o{n}"}} for n in range(start, start + 128)}
        assert (await http.post("/v1/tools", json={"openapi": PETS | {"paths": paths}})).status_code == 201
    assert "at most 256" in problem(await http.post("/v1/tools", json={"openapi": PETS}), 409)
    assert len(await names(store)) == MAX_HTTP_TOOLS
    again = await http.post("/v1/tools", json={"name": "o1", "url": "https://h.example/"})
    assert again.status_code == 200


async def test_registrations_at_the_same_time_are_all_kept(store: Store, http: httpx2.AsyncClient) -> None:
    bodies = [{"name": f"t{n}", "url": "https://h.example/"} for n in range(4)]
    answers = await asyncio.gather(*(http.post("/v1/tools", json=body) for body in bodies))
    kept = [f"t{n}" for n, each in enumerate(answers) if each.status_code == 201]
    assert await names(store) == kept
    assert all(each.status_code in (201, 429) for each in answers)


async def test_only_the_operator_changes_tools(redis_url: str) -> None:
    async with asking(redis_url, pentad_api_keys="k:acme", pentad_admin_key="boss") as http:
        http.headers["authorization"] = "Bearer k"
        for method, path, body in (("POST", "/v1/tools", INVOICE), ("DELETE", "/v1/tools/invoice", None)):
            assert "admin key" in problem(await http.request(method, path, json=body), 403)


async def test_a_program_registers_tools(store: Store, redis_url: str, tmp_path: Path) -> None:
    async with (
        running(redis_url, pentad_data_dir=tmp_path) as gateway,
        pentad.connect(gateway.address) as agent,
    ):
        told = await agent.management.register_tool(**INVOICE)
        assert told["items"][0]["name"] == "invoice"
        await agent.management.register_tool(openapi=PETS, operations=["getPet"])
        assert await names(store) == ["getPet", "invoice"]
        await agent.management.delete_tool("invoice")
        with pytest.raises(pentad.NotFound):
            await agent.management.delete_tool("invoice")


async def test_the_command_line_adds_and_removes_tools(
    store: Store, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "boss")
    file = tmp_path / "tools.json"
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway:
        file.write_text(json.dumps([INVOICE]))
        code, out, err = await tool_command(gateway, capsys, "add", str(file), "--header", "X-Team: a: b")
        assert (code, out, err) == (0, "invoice is registered: GET at https://crm.example, pure\n", "")
        (entry,) = (await REGISTERED_HTTP_TOOLS.read(store)).entries
        assert entry.headers["X-Team"] == "a: b"
        file.write_text(json.dumps(PETS))
        asked = ("--operations", "getPet, addPet", "--prefix", "p_", "--base", "https://b.example")
        code, out, _ = await tool_command(gateway, capsys, "add", str(file), *asked)
        assert (code, sorted(line.split()[0] for line in out.splitlines())) == (0, ["p_addPet", "p_getPet"])
        _, out, _ = await command(gateway, capsys, "tools")
        assert "none yet" in out
        assert out.splitlines()[0].split()[:3] == ["TOOL", "EFFECT", "APPROVAL"]
        await TOOLS.publish(store, [ToolSpec(name="theirs", description="d", parameters={}, approval="always")])
        _, out, _ = await command(gateway, capsys, "tools")
        assert ["theirs", "unsafe", "always"] in [line.split()[:3] for line in out.splitlines()]
        code, _, err = await tool_command(gateway, capsys, "remove", "theirs")
        assert (code, "theirs is a tool of a worker" in err) == (1, True)
        code, out, _ = await tool_command(gateway, capsys, "remove", "p_*")
        assert (code, out.splitlines()[-1], await names(store)) == (0, "2 tools removed", ["invoice"])
        code, _, err = await tool_command(gateway, capsys, "remove", "p_*")
        assert (code, "there is no registered tool 'p_*'" in err) == (1, True)
        file.write_text("openapi: 3.0.0")
        code, _, err = await tool_command(gateway, capsys, "add", str(file))
        assert (code, "YAML is not read" in err) == (1, True)
        file.write_text("[7]")
        code, _, err = await tool_command(gateway, capsys, "add", str(file))
        assert (code, "the file has no tools" in err) == (1, True)
