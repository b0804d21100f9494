"""What the routes of tool calls and of model calls outside a conversation promise where nobody serves them."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.streams import INBOUND, MODEL_CALLS
from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.operator import model_calls
from pentad.shared.presence.published import TOOLS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, running
from tests.integration.gateway.speaker import Speaker
from tests.support.waiting import wait_until

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


async def published(store: Store) -> None:
    """A worker has the tool `echo`."""
    await TOOLS.publish(store, [ToolSpec(name="echo")])


async def test_a_call_is_a_message_to_a_task_of_its_own(http: httpx2.AsyncClient, store: Store) -> None:
    await published(store)
    body = {"args": {"text": "x"}, "call_id": "c1", "user_id": "ada", "timeout": 60}
    asked = await http.post("/v1/tools/echo/call", json=body)
    assert asked.status_code == 202
    assert (asked.json()["call_id"], asked.json()["status"], asked.json()["tool"]) == ("c1", "pending", "echo")
    [[_, fields]] = await store.call("XRANGE", INBOUND.key(), "-", "+")
    message = json.loads(fields[1])
    assert {name: message[name] for name in ("session_id", "message_id", "task_id", "user_id", "instruction")} == {
        "session_id": "tool-call:c1",
        "message_id": "c1",
        "task_id": "new",
        "user_id": "ada",
        "instruction": "direct_call",
    }
    assert json.loads(message["content"]) == {"tool": "echo", "args": {"text": "x"}}
    assert message["deadline"]


async def test_a_call_that_was_refused_before_it_had_a_task_says_so(http: httpx2.AsyncClient, store: Store) -> None:
    await published(store)
    asking = asyncio.create_task(http.post("/v1/tools/echo/call", json={"call_id": "c1", "wait": 30}))
    await wait_until("the message", lambda: store.call("XLEN", INBOUND.key()))
    speaker = Speaker(store, "tool-call:c1")
    await speaker.say("message_routed", task=None, message_id="c1", decision="rejected", confidence=1.0, reason="late")
    answered = await asking
    assert (answered.status_code, answered.json()["status"]) == (200, "failed")
    assert answered.json()["error"] == {"code": "rejected", "message": "late"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/tools/abacus/call", {}, 404),
        ("/v1/tools/%00/call", {}, 404),
        ("/v1/tools/echo/call", {"args": 7}, 422),
        ("/v1/tools/echo/call", {"call_id": "a b"}, 422),
        ("/v1/models/default/complete", {}, 422),
        ("/v1/models/default/complete", HELLO | {"tools": ["abacus"]}, 422),
        ("/v1/models/default/complete", {"messages": [{"role": "root", "content": "x"}]}, 422),
        ("/v1/models/other/complete", HELLO, 404),
        ("/v1/models/default-embedding/complete", HELLO, 404),
        ("/v1/models/%2e%2e/complete", HELLO, 404),
        ("/v1/embeddings", {}, 422),
        ("/v1/embeddings", {"texts": []}, 422),
        ("/v1/embeddings", {"texts": "x"}, 422),
        ("/v1/embeddings", {"texts": [1]}, 422),
        ("/v1/embeddings", {"texts": ["x"] * 257}, 422),
        ("/v1/embeddings", {"texts": ["x"], "model": "y"}, 422),
    ],
)
async def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    http: httpx2.AsyncClient, store: Store, path: str, body: dict[str, Any], status: int
) -> None:
    await published(store)
    refused = await http.post(path, json=body)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert await store.call("XLEN", INBOUND.key()) == 0
    assert await store.call("XLEN", MODEL_CALLS.key(0)) == 0


@pytest.mark.parametrize("path", ["/v1/tools/echo/call", "/v1/models/default/complete", "/v1/embeddings"])
async def test_hostile_bodies_are_refused(http: httpx2.AsyncClient, store: Store, path: str) -> None:
    await published(store)
    deep = b'{"args":' + b"[" * 100_000
    for body, status in ((b"", 400), (b"[]", 400), (b"\xff", 400), (deep, 400), (b" " * (1 << 20) + b"{}", 413)):
        assert (await http.post(path, content=body)).status_code == status
    numbers = b'{"messages":[{"role":"user","content":1e999}],"args":{"a":1e999},"texts":[1e999]}'
    assert (await http.post(path, content=numbers)).status_code in (400, 422)


async def test_another_tenants_call_is_not_there(redis_url: str, store: Store, tmp_path: Any) -> None:
    await published(store)
    keys = {"pentad_api_keys": "ka:acme,kb:bell"}
    async with (
        running(redis_url, pentad_data_dir=tmp_path, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, verify=NO_TLS, trust_env=False) as http,
    ):
        ours, theirs = {"Authorization": "Bearer ka"}, {"Authorization": "Bearer kb"}
        assert (await http.post("/v1/tools/echo/call", json={"call_id": "c"}, headers=ours)).status_code == 202
        assert (await http.get("/v1/tools/calls/c", headers=theirs)).status_code == 404
        waiting = await http.get("/v1/tools/calls/c", headers=ours)
        assert (waiting.status_code, waiting.json()["status"]) == (202, "pending"), "no router has taken it yet"


@pytest.fixture
def for_ever_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose gateway says nothing more would go on for longer than any test waits."""
    monkeypatch.setattr(model_calls, "WANTED_S", 3600)


@pytest.mark.usefixtures("for_ever_wanted")
async def test_a_model_call_that_nobody_takes_ends_in_time_and_is_taken_back(
    http: httpx2.AsyncClient, store: Store
) -> None:
    late = await http.post("/v1/models/default/complete", json=HELLO | {"timeout": 0.2})
    assert (late.status_code, late.json()["code"]) == (504, "model_error")

    async def gone() -> bool:
        return not await store.call("XLEN", MODEL_CALLS.key(0)) and not await store.call("KEYS", "*:wanted:*")

    await wait_until("the call to be taken back", gone)


@pytest.mark.usefixtures("for_ever_wanted")
async def test_a_client_that_leaves_takes_its_model_call_back(http: httpx2.AsyncClient, store: Store) -> None:
    for stream in (False, True):
        asking = asyncio.create_task(http.post("/v1/models/default/complete", json=HELLO | {"stream": stream}))
        await wait_until("the call", lambda: store.call("XLEN", MODEL_CALLS.key(0)))
        asking.cancel()

        async def gone() -> bool:
            return not await store.call("XLEN", MODEL_CALLS.key(0)) and not await store.call("KEYS", "*:wanted:*")

        await wait_until("the call to be taken back", gone)


async def test_vectors_come_in_order_with_the_name_of_their_model(http: httpx2.AsyncClient) -> None:
    one = (await http.post("/v1/embeddings", json={"texts": ["tea"]})).json()
    two = (await http.post("/v1/embeddings", json={"texts": ["coffee", "tea"]})).json()
    assert two["model"] == one["model"]
    assert two["vectors"][1] == one["vectors"][0] != two["vectors"][0]
