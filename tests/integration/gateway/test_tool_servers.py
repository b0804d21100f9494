"""MCP servers and secrets over HTTP, from Python and on the command line: who may change them, what is shown."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.tool_servers import ServerReport
from pentad.shared.keys import SERVER_REPORTS, SERVERS_REGISTRY
from pentad.shared.presence.server_reports import WorkerServers
from pentad.shared.registries.registrations import REGISTERED_SERVERS
from pentad.shared.store.store import Store
from pentad.shared.tool_servers.server_file import MAX_SERVERS
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.support.waiting import PATIENCE_S

REMOTE = {"name": "hub", "url": "https://hub.example.com/mcp/token-in-path", "headers": {"X": "{{secret:HUB}} literal"}}


async def report(store: Store, worker: str, **fields: Any) -> None:
    """Tell of a server as a tool-worker does."""
    given = {"name": "hub", "source": "registered", "transport": "http", "place": "https://hub.example.com"}
    given |= {"condition": "ready", "since": "2030-01-01T00:00:00.000Z"}
    told = WorkerServers(at=await store.clock(), servers=(ServerReport.model_validate(given | fields),))
    await store.call("HSET", SERVER_REPORTS, worker, told.to_json())


@asynccontextmanager
async def asking(redis_url: str, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway with these settings, and a client of it."""
    async with running(redis_url, **settings) as gateway, _client(gateway.address) as http:
        yield http


def _client(address: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S, trust_env=False)


async def listed(http: httpx2.AsyncClient) -> list[dict[str, Any]]:
    found = (await http.get("/v1/tools/servers")).json()
    assert found["next"] is None
    items: list[dict[str, Any]] = found["items"]
    return items


async def test_a_server_is_registered_replaced_and_removed(store: Store, http: httpx2.AsyncClient) -> None:
    assert await listed(http) == []
    first = await http.post("/v1/tools/servers", json=REMOTE | {"colour": "red"})
    assert (first.status_code, first.json()["condition"]) == (201, "unknown")
    assert first.json()["warning"] == "server 'hub': these fields mean nothing here: colour"
    assert (await http.post("/v1/tools/servers", json=REMOTE | {"timeout": 5})).status_code == 200
    (entry,) = (await REGISTERED_SERVERS.read(store)).entries
    assert (entry.timeout, entry.secrets) == (5, ["HUB"])
    (shown,) = await listed(http)
    assert (shown["name"], shown["source"], shown["secrets"], shown["workers"]) == ("hub", "registered", ["HUB"], 0)
    assert (await http.delete("/v1/tools/servers/hub")).status_code == 204
    assert problem(await http.delete("/v1/tools/servers/hub"), 404) == "there is no such server"
    assert await listed(http) == []


async def test_a_server_is_shown_without_what_may_be_secret(store: Store, http: httpx2.AsyncClient) -> None:
    await http.post("/v1/tools/servers", json=REMOTE)
    text = (await http.get("/v1/tools/servers")).text
    assert "https://hub.example.com" in text
    for hidden in ("token-in-path", "literal"):
        assert hidden not in text


async def test_a_server_is_shown_as_in_the_worker_where_it_does_worst(store: Store, http: httpx2.AsyncClient) -> None:
    await report(store, "one", tools=3)
    await report(store, "two", condition="failing", error="refused")
    (shown,) = await listed(http)
    assert (shown["condition"], shown["error"], shown["workers"], shown["ready"]) == ("failing", "refused", 2, 1)


async def test_what_a_program_says_is_for_operators_alone(store: Store, redis_url: str) -> None:
    await report(store, "one", condition="failing", said="my token is hunter2")
    keys = {"pentad_api_keys": "k:acme", "pentad_admin_key": "boss"}
    async with running(redis_url, **keys) as gateway:
        for key, seen in (("k", None), ("boss", "my token is hunter2")):
            async with _client(gateway.address) as http:
                http.headers["authorization"] = f"Bearer {key}"
                assert (await listed(http))[0]["said"] == seen


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"url": "https://h"}, 422, "name: a registered server's name"),
        ({"name": "@version", "url": "https://h"}, 422, "name: a registered server's name"),
        ({"name": "a/b", "url": "https://h"}, 422, "name: a registered server's name"),
        ({"name": "s"}, 422, "it needs a url"),
        ({"name": "s", "url": "https://h", "headers": {"A": "${TOKEN}"}}, 422, "variables (${NAME}) are filled in"),
        ({"name": "s", "url": "https://h", "disabled": True}, 422, "it is turned off"),
        ({"name": "s", "url": "https://h", "headers": {"A": "x" * 70_000}}, 422, "headers.A"),
        ({"name": "s", "command": "sh"}, 403, "PENTAD_MCP_COMMANDS=on"),
        ({"name": "s", "command": "sh", "cwd": "here"}, 422, "cwd: a registered server's folder is a whole path"),
    ],
)
async def test_what_cannot_be_registered_is_refused_with_its_reason(
    body: dict[str, Any], status: int, said: str, store: Store, http: httpx2.AsyncClient
) -> None:
    assert said in problem(await http.post("/v1/tools/servers", json=body), status)
    assert await store.call("EXISTS", SERVERS_REGISTRY) == 0


async def test_programs_are_registered_where_the_operator_says_so(store: Store, redis_url: str) -> None:
    async with asking(redis_url, pentad_mcp_commands="on") as http:
        made = await http.post("/v1/tools/servers", json={"name": "s", "command": "sh", "args": ["-c", "true"]})
        assert (made.status_code, made.json()["place"]) == (201, "sh")


async def test_a_name_is_one_servers(store: Store, http: httpx2.AsyncClient) -> None:
    await report(store, "one", name="filed", source="file")
    taken = await http.post("/v1/tools/servers", json=REMOTE | {"name": "filed"})
    assert "server filed is of the file of PENTAD_MCP" in problem(taken, 409)
    assert "it is removed there" in problem(await http.delete("/v1/tools/servers/filed"), 409)
    await http.post("/v1/tools/servers", json=REMOTE | {"name": "a.b"})
    alike = await http.post("/v1/tools/servers", json=REMOTE | {"name": "a_b"})
    assert "its tools would be named like those of a.b" in problem(alike, 409)


async def test_there_are_so_many_servers_at_most(store: Store, http: httpx2.AsyncClient) -> None:
    for number in range(MAX_SERVERS):
        assert (await http.post("/v1/tools/servers", json=REMOTE | {"name": f"s{number}"})).status_code == 201
    assert "delete one" in problem(await http.post("/v1/tools/servers", json=REMOTE), 409)
    assert (await http.post("/v1/tools/servers", json=REMOTE | {"name": "s1"})).status_code == 200


async def test_only_the_operator_changes_servers_and_secrets(redis_url: str, tmp_path: Path) -> None:
    keys = {"pentad_api_keys": "k:acme", "pentad_admin_key": "boss", "pentad_secrets": str(tmp_path / "secrets")}
    async with asking(redis_url, **keys) as http:
        http.headers["authorization"] = "Bearer k"
        for method, path, body in (
            ("POST", "/v1/tools/servers", REMOTE),
            ("DELETE", "/v1/tools/servers/hub", None),
            ("POST", "/v1/secrets", {"name": "T", "value": "x"}),
            ("DELETE", "/v1/secrets/T", None),
        ):
            assert "admin key" in problem(await http.request(method, path, json=body), 403)
    assert not (tmp_path / "secrets").exists()


async def test_a_secret_is_kept_and_removed_and_never_shown(redis_url: str, tmp_path: Path) -> None:
    async with asking(redis_url, pentad_secrets=str(tmp_path / "secrets")) as http:
        kept = await http.post("/v1/secrets", json={"name": "TOKEN", "value": "hunter2", "user_id": "slack:C1"})
        assert (kept.status_code, kept.content) == (204, b"")
        everybody = {"name": "TOKEN", "value": "ours", "tenant_id": "acme"}
        assert (await http.post("/v1/secrets", json=everybody)).status_code == 204
        file = tmp_path / "secrets" / "default" / "slack%3AC1" / "TOKEN"
        assert file.read_text() == "hunter2"
        assert (tmp_path / "secrets" / "acme" / "TOKEN").read_text() == "ours"
        for path in ("/v1/secrets", "/v1/secrets/TOKEN"):
            assert (await http.get(path)).status_code == 405
        assert problem(await http.delete("/v1/secrets/TOKEN"), 404) == "there is no such secret"
        gone = await http.delete("/v1/secrets/TOKEN", params={"user_id": "slack:C1"})
        assert gone.status_code == 204
        assert not file.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../x"},
        {"name": 1},
        {"value": ""},
        {"value": 7},
        {"value": "x" * 20_000},
        {"value": "a\0b"},
        {"value": "\ud800"},
        {"user_id": "a/b"},
        {"tenant_id": "../x"},
        {"vaule": "hunter2"},
    ],
)
async def test_a_wrong_secret_is_refused_and_not_repeated(
    wrong: dict[str, Any], redis_url: str, tmp_path: Path
) -> None:
    async with asking(redis_url, pentad_secrets=str(tmp_path / "secrets")) as http:
        body = json.dumps({"name": "T", "value": "hunter2"} | wrong)
        refused = await http.post("/v1/secrets", content=body)
        assert refused.status_code in (400, 422)
        assert "hunter2" not in refused.text
    assert not (tmp_path / "secrets").exists()


async def test_without_a_place_secrets_are_refused_with_what_to_do(http: httpx2.AsyncClient) -> None:
    assert "set PENTAD_SECRETS" in problem(await http.post("/v1/secrets", json={"name": "T", "value": "x"}), 409)


async def test_the_command_line_imports_a_file_and_lists_and_removes_servers(
    store: Store, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "boss")
    monkeypatch.setenv("HUB_TOKEN", "t-1")
    file = tmp_path / "mcp.json"
    servers = {
        "@org/hub": {"type": "http", "url": "https://hub.example.com/mcp", "headers": {"A": "Bearer ${HUB_TOKEN}"}},
        "old": {"type": "sse", "url": "https://old.example.com/sse", "includeTools": ["a"], "timeout": 5000},
        "program": {"command": "npx", "args": ["x"]},
        "off": {"command": "npx", "disabled": True},
    }
    file.write_text(json.dumps({"mcpServers": servers}))
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway:
        assert await command(gateway, capsys, "mcp") == (0, "no MCP servers: docs/mcp.md says how to add one\n", "")
        code, out, err = await command(gateway, capsys, "mcp", "import", str(file))
        assert (code, [line.split()[0] for line in out.splitlines()]) == (1, ["org-hub", "old", "off"])
        assert "program: Forbidden: a registered server that is a program" in err
        assert "1 server of 3 could not be registered" in err
        entries = {each.name: each for each in (await REGISTERED_SERVERS.read(store)).entries}
        assert entries["org-hub"].headers == {"A": "Bearer t-1"}
        assert (entries["old"].sse, entries["old"].only, entries["old"].timeout) == (True, ("a",), 5.0)
        await report(store, "one", name="old", condition="failing", error="no connection", left_out_count=1)
        code, out, _ = await command(gateway, capsys, "mcp")
        assert code == 0
        assert "no connection" in out
        _, out, _ = await command(gateway, capsys, "tools")
        assert "MCP server old is failing: no connection" in out
        assert (await command(gateway, capsys, "mcp", "remove", "old"))[0] == 0
        code, _, err = await command(gateway, capsys, "mcp", "remove", "no-such")
        assert (code, "`pentad mcp` lists them" in err) == (1, True)
        file.write_text('{"mcpServers": {"s": {"command": "x", "env": {"A": "${NOT_SET}"}}}}')
        code, _, err = await command(gateway, capsys, "mcp", "import", str(file))
        assert code == 1
        assert "the variable NOT_SET is not set" in err
