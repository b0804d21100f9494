"""The MCP server at the wire: whose things are seen, what a token opens, and that no body breaks it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json

from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.edge.http import BODY_LIMIT
from pentad.services.gateway.protocols.mcp_server.inputs import AskedCall, AskedState
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_tokens import rest, token_for
from tests.support.waiting import in_time

KEYS = "ka:acme,kb:bolt"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_state", "arguments": {}}}


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_files=str(tmp_path), pentad_api_keys=KEYS, pentad_admin_key="op") as service:
        yield service


class Mcp:
    """A client of MCP that posts by hand what it is told."""

    def __init__(self, service: GatewayService, key: str | None, version: str = LEGACY) -> None:
        self._service, self._key, self._version = service, key, version

    async def post(self, method: str, **params: Any) -> httpx2.Response:
        about = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        }
        headers = HEADERS | {"mcp-protocol-version": self._version}
        if self._version == MODERN:
            params["_meta"] = about
            headers |= {"mcp-method": method}
            if (name := params.get("name") or params.get("uri")) is not None:
                headers["mcp-name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with rest(self._service, self._key) as http:
            return await http.post("/mcp", content=to_json(body), headers=headers)

    async def asked(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the message of JSON-RPC that answers a request."""
        return message_in(await self.post(method, **params))

    async def called(self, tool: str, **args: Any) -> dict[str, Any]:
        """Return the result of a tool call."""
        result: dict[str, Any] = (await self.asked("tools/call", name=tool, arguments=args))["result"]
        return result

    async def resumed(self, state: AskedState, key: str) -> dict[str, Any]:
        """Return the result of a call that brings an answer back."""
        said = {"action": "accept", "content": {"answer": "x"} if key == "answer" else {"approved": True}}
        params = {"name": "send", "arguments": {}, "requestState": state.written(), "inputResponses": {key: said}}
        result: dict[str, Any] = (await self.asked("tools/call", **params))["result"]
        return result


def message_in(answer: httpx2.Response) -> dict[str, Any]:
    is_stream = answer.headers["content-type"].startswith("text/event-stream")
    text = answer.text.rpartition("\ndata: ")[2] if is_stream else answer.text
    message: dict[str, Any] = json.loads(text)
    return message


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_another_tenants_sessions_memory_and_files_are_not_seen(
    gateway: GatewayService, store: Store, version: str
) -> None:
    await Speaker(store, tenant="acme").task()
    us, them = Mcp(gateway, "ka", version), Mcp(gateway, "kb", version)
    async with rest(gateway, "ka") as http:
        assert (await http.put("/v1/sessions/s1/files/a.txt", content=b"ours")).status_code == 200
        sent = await http.post("/v1/messages", json={"content": "hi", "session_id": "s1", "message_id": "m1"})
        assert sent.status_code == 202
    uri = "pentad-files://sessions/s1/a.txt"
    assert (await us.asked("resources/read", uri=uri))["result"]["contents"][0]["text"] == "ours"
    assert "no files" in (await them.asked("resources/read", uri=uri))["error"]["message"]
    assert (await them.asked("resources/list"))["result"]["resources"] == []
    ours = await us.called("run_state", session_id="s1", message_id="m1", wait=0)
    theirs = await them.called("run_state", session_id="s1", message_id="m1", wait=0)
    assert (ours["isError"], theirs["isError"]) == (False, True)
    assert "no such message" in theirs["content"][0]["text"]
    decided = await them.called("decide", task_id=TASK, tool_call_id="c1", approved=True)
    assert "there is no task" in decided["content"][0]["text"]
    cancelled = await them.called("cancel", task_id=TASK)
    assert "there is no task" in cancelled["content"][0]["text"]
    for client, session in ((them, "s1"), (us, "s2")):
        resumed = await client.resumed(AskedState(session=session, message="m1", task=TASK), "answer")
        assert "the session has no such task" in resumed["content"][0]["text"]


async def test_nobody_is_served_without_a_key(gateway: GatewayService) -> None:
    for key in (None, "wrong"):
        answer = await Mcp(gateway, key).post("tools/list")
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    refused = await Mcp(gateway, "op").called("run_state", session_id="s1", message_id="m1")
    assert "use one of its API keys" in refused["content"][0]["text"]


async def test_a_token_opens_its_session_and_what_it_may(gateway: GatewayService, store: Store) -> None:
    await Speaker(store, tenant="acme").task()
    page = Mcp(gateway, await token_for(gateway, "ka", may=["read"]))
    names = {tool["name"] for tool in (await page.asked("tools/list"))["result"]["tools"]}
    assert names == {"run_state"}
    for tool, args in (
        ("send", {"content": "hi"}),
        ("run__simple", {"input": "hi"}),
        ("cancel", {"task_id": TASK}),
        ("memory_search", {"query": "x"}),
        ("memory_note", {"text": "x"}),
        ("decide", {"task_id": TASK, "tool_call_id": "c1", "approved": True}),
        ("run_state", {"session_id": "s2", "message_id": "m1"}),
    ):
        result = await page.called(tool, **args)
        assert result["isError"], tool
        assert "token" in result["content"][0]["text"], tool
    asked = AskedState(session="s1", message="m1", task=TASK, calls=[AskedCall(id="c1", digest="0" * 64)])
    modern = Mcp(gateway, await token_for(gateway, "ka", may=["read", "send"]), MODERN)
    assert "may not approve" in (await modern.resumed(asked, "c1"))["content"][0]["text"]
    async with rest(gateway, "ka") as http:
        for session in ("s1", "s2"):
            await http.put(f"/v1/sessions/{session}/files/a.txt", content=b"ours")
    listed = (await page.asked("resources/list"))["result"]["resources"]
    assert [each["uri"] for each in listed] == ["pentad-files://sessions/s1/a.txt"]
    other = await page.asked("resources/read", uri="pentad-files://sessions/s2/a.txt")
    assert "another session" in other["error"]["message"]


async def test_files_have_pages(gateway: GatewayService, store: Store) -> None:
    page = Mcp(gateway, await token_for(gateway, "ka", may=["read"]))
    async with rest(gateway, "ka") as http:
        for number in range(103):
            await http.put(f"/v1/sessions/s1/files/{number:03}.txt", content=b"x")
    first = (await page.asked("resources/list"))["result"]
    second = (await page.asked("resources/list", cursor=first["nextCursor"]))["result"]
    names = [each["name"] for each in first["resources"] + second["resources"]]
    assert names == [f"{number:03}.txt" for number in range(103)]
    assert second.get("nextCursor") is None


@pytest.mark.parametrize("version", [LEGACY, MODERN, "1999-01-01"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
        to_json([CALL] * 100),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{"wait":NaN}}}',
        to_json(CALL | {"id": None}),
        to_json(CALL | {"id": {"a": 1}}),
        to_json(CALL | {"id": "x" * 100_000}),
        to_json(CALL | {"params": []}),
        to_json(CALL | {"method": "x" * 10_000}),
        to_json(CALL | {"method": "tasks/list"}),
        to_json(CALL | {"params": {"name": "x" * 10_000, "arguments": {}}}),
        to_json(CALL | {"params": {"name": "run__../../x", "arguments": {}}}),
        to_json(CALL | {"params": {"name": "send", "arguments": {"content": ["x"] * 1000}}}),
        to_json(CALL | {"params": {"name": "send", "arguments": {"content": "x", "tenant_id": "bolt"}}}),
        to_json(CALL | {"params": {"name": "send", "arguments": {"content": "x", "wait": 1e308}}}),
        to_json(CALL | {"params": {"name": "run", "arguments": {"name": "simple", "input": "x", "metadata": {}}}}),
        to_json(CALL | {"params": {"name": "send", "arguments": {}, "requestState": "x" * 100_000}}),
        to_json(CALL | {"method": "resources/read", "params": {"uri": "pentad-files://sessions/s1/" + "../" * 1000}}),
        to_json(CALL | {"method": "resources/read", "params": {"uri": "pentad-files://sessions/%2e%2e/x"}}),
        to_json(CALL | {"method": "resources/list", "params": {"cursor": "[" * 1000}}),
        to_json(CALL | {"method": "tools/list", "params": {"cursor": "x" * 1000}}),
        to_json({"jsonrpc": "2.0", "id": 1, "result": {}}),
        b" " * (BODY_LIMIT + 1),
    ],
)
async def test_no_body_breaks_it(gateway: GatewayService, version: str, body: bytes, caplog: Any) -> None:
    async with rest(gateway, "ka") as http:
        answer = await http.post("/mcp", content=body, headers=HEADERS | {"mcp-protocol-version": version})
    assert 200 <= answer.status_code < 500, answer.text
    if answer.status_code == 200:
        message = message_in(answer)
        assert "error" in message or message["result"]["isError"], message
    assert "Traceback" not in answer.text + caplog.text
    assert (await Mcp(gateway, "ka").asked("ping"))["result"] == {}, "it goes on"


@pytest.mark.parametrize(
    "body",
    [
        to_json(CALL | {"params": {"name": "send", "arguments": {"content": [0] * 60_000}}}),
        to_json([CALL] * 2),
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    ],
)
async def test_a_body_out_of_bounds_is_refused_before_the_sdk_reads_it(gateway: GatewayService, body: bytes) -> None:
    async with rest(gateway, "ka") as http:
        answer = await http.post("/mcp", content=body, headers=HEADERS | {"mcp-protocol-version": LEGACY})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text


@pytest.mark.parametrize(
    "headers", [{"content-type": "text/plain"}, {"content-encoding": "gzip"}, {"accept": "text/x"}]
)
async def test_no_header_breaks_it(gateway: GatewayService, headers: dict[str, str]) -> None:
    async with rest(gateway, "ka") as http:
        answer = await http.post("/mcp", content=to_json(CALL), headers=HEADERS | headers)
        others = [await http.request(method, "/mcp") for method in ("GET", "DELETE", "PUT")]
    assert answer.status_code in (406, 415)
    assert [each.status_code for each in others] == [405] * 3


async def test_without_its_package_it_says_what_to_install(
    gateway: GatewayService, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = "pentad.services.gateway.protocols.mcp_server.served"
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types")] + [served]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    answer = await Mcp(gateway, "ka").post("tools/list")
    assert (answer.status_code, answer.headers["content-type"]) == (501, "application/problem+json")
    assert "install pentad[mcp]" in answer.json()["detail"]


async def test_a_page_of_another_site_is_refused_at_an_open_gateway(redis_url: str) -> None:
    async with running(redis_url) as service:
        for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
            async with rest(service, None) as http:
                answer = await http.post("/mcp", content=to_json(CALL), headers=HEADERS | headers)
            assert answer.status_code == 403


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_an_unknown_tool_is_an_error_of_the_protocol(gateway: GatewayService, version: str) -> None:
    answer = await Mcp(gateway, "ka", version).asked("tools/call", name="nothing", arguments={})
    assert answer["error"]["code"] == -32602
    assert "tools/list" in answer["error"]["message"]


async def test_spaces_around_the_value_of_a_header_are_no_part_of_it(gateway: GatewayService) -> None:
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    params = {"name": "run_state", "arguments": {}, "_meta": about}
    body = to_json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    place = httpx2.URL(gateway.address)
    given = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "  run_state \t ", "host": "x"}
    head = HEADERS | given | {"authorization": "Bearer ka", "connection": "close", "content-length": str(len(body))}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write("\r\n".join(lines).encode() + body)
    async with in_time():
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b'"isError":true' in answer, "the tool was asked, without what it needs"
