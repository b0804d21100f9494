"""A running gateway answers whatever comes, with what its OpenAPI document names, and goes on."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from pentad.services.gateway.api_docs.openapi import document
from pentad.services.gateway.composition import ROUTE_GROUPS
from pentad.services.gateway.protocols.mcp_server.catalogue import FIXED_TOOLS
from tests.fuzz.test_readers import BYTES, JSON, OBJECTS, WORDS
from tests.integration.service.raw_http import exchange
from tests.integration.service.test_garbage import system
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.waiting import wait_until

T = TypeVar("T")
DOCUMENT = document(ROUTE_GROUPS)
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
SCHEMAS = DOCUMENT["components"]["schemas"]
_PROBLEM = "application/problem+json"
NEVER_ENDS = "/v1/sessions/{session}/events"
IDS = (
    WORDS
    | st.text(max_size=20)
    | st.sampled_from(["task-0-a", "task-9-a", "..", "a" * 129, "0-1", "inbound:1-1", "%00"])
)


class Running:
    """A whole system, a client of it, and the loop that all run on."""

    def __init__(self, runner: asyncio.Runner, address: str, http: httpx2.AsyncClient) -> None:
        self._runner, self.address, self.http = runner, address, http

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(work, 20))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        try:
            model = runner.run(stack.enter_async_context(ScriptedModel(lambda _: say("yes"), record=False)))
            address = runner.run(stack.enter_async_context(system(tmp_path_factory.mktemp("fuzz"), model)))
            client = httpx2.AsyncClient(base_url=address, trust_env=False, timeout=20)
            running = Running(runner, address, runner.run(stack.enter_async_context(client)))
            runner.run(wait_until("the memory to be open", lambda: _is_open(running.http)))  # until then it is 503
            yield running
        finally:
            runner.run(stack.aclose())


async def _is_open(http: httpx2.AsyncClient) -> bool:
    return (await http.get("/v1/memory/stats")).status_code == 200


HEADS = st.sampled_from(
    (
        b"GET / HTTP/1.1\r\n",
        b"POST /v1/messages HTTP/1.1\r\n",
        b"GET /v1/ws HTTP/1.1\r\n",
        b"Host: localhost\r\n",
        b"Host: evil\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        b"Sec-WebSocket-Version: 13\r\n",
        b"Expect: 100-continue\r\n",
        b"Authorization: Bearer x\r\n",
        b"Connection: close\r\n",
        b"X: " + b"y" * 9000 + b"\r\n",
        b"\r\n",
        b"0\r\n",
        b"5;x\r\nhello\r\n",
        b"{}",
        b" ",
        b"\x00",
        b"\xff\xfe",
    )
)


@given(st.lists(HEADS | st.binary(max_size=20), max_size=9))
def test_bytes_on_a_connection(gateway: Running, parts: list[bytes]) -> None:
    async def talk() -> None:
        # What comes behind them ends the connection, so that the answer has an end too.
        _, said = await exchange(gateway.address, b"".join(parts) + b"\r\n\r\n\x00\r\n\r\n")
        statuses = {int(line[9:12]) for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")}
        assert not {status for status in statuses if status >= 500}, said

    gateway.run(talk())


def _values(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    numbers = st.integers() | st.floats() | st.sampled_from([0, 1, 500, 501, 600, -1])
    within = {"integer": st.integers(schema.get("minimum", 0), schema.get("maximum", 100)).map(str)}
    return within.get(schema.get("type", ""), st.nothing()) | numbers.map(str) | st.text(max_size=20) | IDS


@given(st.data())
def test_every_operation_of_the_interface(gateway: Running, data: st.DataObject) -> None:
    method, path, operation = data.draw(st.sampled_from(OPERATIONS))
    parameters = operation.get("parameters", [])
    query = {
        p["name"]: data.draw(_values(p["schema"]))
        for p in parameters
        if p["in"] == "query" and data.draw(st.booleans())
    }
    for name in (p["name"] for p in parameters if p["in"] == "path"):
        path = path.replace(
            f"{{{name}}}", httpx2.URL("http://x").join(f"/{_quoted(data.draw(IDS))}").raw_path.decode()[1:]
        )
    if "wait" in query or path.endswith("/run"):
        query["wait"] = "0"
    body = data.draw(BYTES | OBJECTS.map(lambda o: json.dumps(o).encode())) if "requestBody" in operation else None
    if operation is DOCUMENT["paths"][NEVER_ENDS]["get"]:
        method = "HEAD"

    async def ask() -> None:
        response = await gateway.http.request(method, path, params=query, content=body)
        known = set(map(int, operation["responses"])) | {404, 405, 200}
        assert response.status_code in known, (method, path, query, body, response.text)
        assert response.status_code < 500, (method, path, query, body, response.text)
        if response.status_code >= 400 and method != "HEAD":
            declared = operation["responses"].get(str(response.status_code), {}).get("content", {_PROBLEM: {}})
            kind = response.headers["content-type"].partition(";")[0]
            assert kind in {*declared, _PROBLEM}, (method, path, response.text)
            assert kind != _PROBLEM or response.json()["detail"]

    gateway.run(ask())


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text.encode("utf-8", "replace"), safe="") or "x"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (p, v["name"])
        for m, p, o in OPERATIONS
        for v in o.get("parameters", [])
        if "maximum" in v["schema"] and "{" not in p  # what a path names would have to be there
    ],
)
def test_a_number_is_taken_within_its_range_and_refused_beyond(gateway: Running, path: str, name: str) -> None:
    (schema,) = [
        v["schema"] for m, p, o in OPERATIONS for v in o.get("parameters", []) if (p, v["name"]) == (path, name)
    ][:1]

    async def status(value: int) -> int:
        return (await gateway.http.get(path, params={name: value, "q": "x"})).status_code

    async def ask() -> None:
        assert [await status(value) for value in (schema["minimum"], schema["maximum"])] == [200, 200]
        assert [await status(value) for value in (schema["minimum"] - 1, schema["maximum"] + 1)] == [422, 422]

    gateway.run(ask())


MCP_TOOLS = st.sampled_from([*(tool.name for tool in FIXED_TOOLS), "run__simple", "run__x", "x"])
MCP_PARAMS = st.builds(
    lambda name, args, more: more | {"name": name, "arguments": args | {"wait": 0}, "uri": name, "cursor": name},
    MCP_TOOLS,
    OBJECTS,
    OBJECTS,
)
MCP_METHODS = st.sampled_from(["tools/call"] * 3 + ["tools/list", "resources/read", "resources/list", "ping", "x"])
MCP_VERSIONS = st.sampled_from(["2025-06-18", "2025-11-25", "2026-07-28"])
MCP_META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@given(MCP_METHODS, MCP_PARAMS, MCP_VERSIONS)
def test_messages_of_mcp(gateway: Running, method: str, params: dict[str, Any], version: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": MCP_META}}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": method,
        "mcp-name": params["name"],
    }

    async def ask() -> None:
        response = await gateway.http.post("/mcp", content=json.dumps(body), headers=headers)
        assert response.status_code < 500, (body, response.text)
        assert "our fault" not in response.text, (body, response.text)
        assert "-32603" not in response.text, (body, response.text)

    gateway.run(ask())


FRAMES = JSON.map(json.dumps) | OBJECTS.map(json.dumps) | BYTES
COMMANDS = st.sampled_from(["message", "ping", "move", "cancel", "pause", "resume", "approve"])
TYPED = st.builds(lambda kind, body: json.dumps({**body, "type": kind}), COMMANDS, OBJECTS)


@given(st.lists(TYPED | FRAMES, max_size=6))
def test_frames_of_a_websocket(gateway: Running, frames: list[str | bytes]) -> None:
    async def talk() -> None:
        url = f"ws{gateway.address[4:]}/v1/ws?session_id=s1"
        async with connect(url, proxy=None, compression=None, close_timeout=1) as socket:
            for frame in frames:
                await socket.send(frame)
            await socket.send('{"type":"ping"}')
            try:
                while (said := json.loads(await socket.recv()))["type"] != "pong":
                    assert said.get("code") != "internal", said
            except ConnectionClosed as error:
                raise AssertionError(f"closed: {error}") from None

    gateway.run(talk())
