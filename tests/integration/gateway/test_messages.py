"""What `POST /v1/messages` promises."""

import asyncio
import gzip
import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.shared import metrics
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.support.counting import Counts
from tests.support.waiting import PATIENCE_S, in_time, wait_until

PROBLEM = "application/problem+json"


async def test_a_message_is_accepted_with_its_ids(http: httpx2.AsyncClient, store: Store) -> None:
    response = await http.post("/v1/messages", json={"content": "hi", "tenant_id": "evil"})
    assert response.status_code == 202
    body = response.json()
    [[_, fields]] = await store.call("XRANGE", INBOUND.key(), "-", "+")
    appended = json.loads(fields[1])
    assert body == {"session_id": appended["session_id"], "message_id": appended["message_id"]}
    assert appended["tenant_id"] == "default"


@pytest.mark.parametrize("status", ["completed", "waiting"])
async def test_waiting_brings_the_turn(http: httpx2.AsyncClient, speaker: Speaker, store: Store, status: str) -> None:
    asking = asyncio.create_task(
        http.post("/v1/messages?wait=10", json={"content": "hi", "session_id": "s1", "message_id": "m1"})
    )
    await wait_until("the message", lambda: store.call("XLEN", INBOUND.key()))
    await speaker.routed("m1")
    await speaker.delta("4", 0)
    await speaker.say("message", step=1, attempt=1, content="42")
    if status == "waiting":
        await speaker.say("task_status", status="waiting", reason="question")
    else:
        await speaker.say("task_end", status=status, steps=1)
    response = await asking
    body = response.json()
    assert response.status_code == 200
    assert (body["answer"], body["status"], body["task_id"], body["message_id"]) == ("42", status, TASK, "m1")
    assert [event["type"] for event in body["events"]][:2] == ["message_routed", "message"]
    assert all("id" in event for event in body["events"])


async def test_waiting_for_a_repeated_message_brings_the_first_ones_turn(
    http: httpx2.AsyncClient, speaker: Speaker, store: Store
) -> None:
    await speaker.turn("m1", "first")
    await speaker.turn("m2", "second")
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", "1-0")
    again = {"content": "other", "session_id": "s1", "message_id": "m1"}
    response = await http.post("/v1/messages?wait=10", json=again)
    assert (response.status_code, response.json()["answer"]) == (200, "first")
    assert await store.call("XLEN", INBOUND.key()) == 0


@pytest.mark.parametrize("named", [{"user_id": "bob"}, {"task_id": "task-0-b"}, {"instruction": "executor"}])
async def test_an_accepted_id_that_names_somebody_or_something_else_is_refused(
    http: httpx2.AsyncClient, store: Store, named: dict[str, str]
) -> None:
    """Promise: nobody is told what another user's message was answered under the same id."""
    first = InboundMessage(content="hi", user_id="ada")
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", f"1-0 {message_digest(first)}")
    again = {"content": "hi", "session_id": "s1", "message_id": "m1", "user_id": "ada"}
    assert (await http.post("/v1/messages", json=again)).status_code == 202
    refused = await http.post("/v1/messages?wait=10", json=again | named)
    assert refused.status_code == 409
    assert "user_id, task_id, instruction, output, state, files or tools" in refused.json()["detail"]


@pytest.mark.parametrize("other", [None, [{"name": "get_time"}]])
async def test_an_accepted_id_with_other_tools_is_refused(
    http: httpx2.AsyncClient, store: Store, other: list[dict[str, str]] | None
) -> None:
    """Promise: nobody waits for a call of a tool that the accepted message has not offered."""
    body = {"content": "hi", "session_id": "s1", "message_id": "m1", "tools": [{"name": "get_place"}]}
    first = message_digest(InboundMessage.model_validate(body))
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", f"1-0 {first}")
    assert (await http.post("/v1/messages", json=body)).status_code == 202
    assert (await http.post("/v1/messages", json=body | {"tools": other})).status_code == 409


@pytest.mark.parametrize("query", ["", "?wait=10"])
async def test_another_text_under_an_accepted_id_is_refused(http: httpx2.AsyncClient, store: Store, query: str) -> None:
    """Promise: nobody takes the first message's answer for the second one's."""
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", f"1-0 {message_digest(InboundMessage(content='hi'))}")
    other = {"content": "other", "session_id": "s1", "message_id": "m1"}
    refused = await http.post(f"/v1/messages{query}", json=other)
    assert refused.status_code == 409
    told = refused.json()["detail"]
    assert message_digest(InboundMessage(content="hi")) in told
    assert message_digest(InboundMessage(content="other")) in told
    assert await store.call("XLEN", INBOUND.key()) == 0
    assert (await http.post("/v1/messages", json=other | {"content": "hi"})).status_code == 202


async def test_when_time_is_up_it_is_202(http: httpx2.AsyncClient) -> None:
    response = await http.post("/v1/messages?wait=0.05", json={"content": "hi", "session_id": "s1"})
    assert response.status_code == 202
    assert response.json()["message_id"]


async def test_too_much_waiting_work_is_429(http: httpx2.AsyncClient, store: Store) -> None:
    await store.call("HSET", "pentad:{0}:load", "mail", 10_000)
    response = await http.post("/v1/messages", json={"content": "hi", "session_id": "s1"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert response.json()["code"] == "busy"
    await store.call("HSET", "pentad:{0}:load", "mail", 0)

    async def accepted() -> bool:
        again = await http.post("/v1/messages", json={"content": "hi", "session_id": "s1"})
        return again.status_code == 202

    await wait_until("room", accepted)


async def test_what_is_accepted_is_counted_and_what_is_refused_is_not(http: httpx2.AsyncClient, store: Store) -> None:
    counts = Counts()
    await store.call("HSET", "pentad:{0}:load", "mail", 10_000)
    assert (await http.post("/v1/messages", json={"content": "hi"})).status_code == 429
    assert counts.of(metrics.published, stream=INBOUND.name) == 0
    await store.call("HSET", "pentad:{0}:load", "mail", 0)

    async def accepted() -> bool:
        return (await http.post("/v1/messages", json={"content": "hi"})).status_code == 202

    await wait_until("room", accepted)
    assert counts.of(metrics.published, stream=INBOUND.name) == await store.call("XLEN", INBOUND.key()) == 1


async def test_unread_inbound_entries_are_waiting_work(http: httpx2.AsyncClient, store: Store) -> None:
    await store.call("XGROUP", "CREATE", INBOUND.key(), "router", "0", "MKSTREAM")
    pipe = store.redis.pipeline()
    for _ in range(10_000):
        pipe.xadd(INBOUND.key(), {"data": "{}"})
    await pipe.execute()
    response = await http.post("/v1/messages", json={"content": "hi", "session_id": "s1"})
    assert response.status_code == 429


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b'{"a":' * 50_000, 400),
        (b"{}", 422),
        (b'{"content":""}', 422),
        (b'{"content":"x","session_id":"a b"}', 400),
        (b'{"content":"x","session_id":7}', 422),
        (b'{"content":"x","session_id":"a\\u0000"}', 400),
        (b'{"content":"x","message_id":"a\\n"}', 422),
        (b'{"content":"x","deadline":"soon"}', 422),
        (b'{"content":"' + b"x" * (1 << 20) + b'"}', 413),
    ],
)
async def test_hostile_bodies_are_problems(http: httpx2.AsyncClient, store: Store, body: bytes, status: int) -> None:
    response = await http.post("/v1/messages", content=body)
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    assert response.json()["status"] == status
    assert await store.call("XLEN", INBOUND.key()) == 0


async def test_an_encoded_body_is_refused_unread(http: httpx2.AsyncClient) -> None:
    bomb = gzip.compress(b" " * (8 << 20))
    response = await http.post("/v1/messages", content=bomb, headers={"content-encoding": "gzip"})
    assert response.status_code == 415
    assert "without Content-Encoding" in response.json()["detail"]


async def test_a_body_without_a_length_is_bounded_too(http: httpx2.AsyncClient) -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b"x" * 65_536

    response = await http.post("/v1/messages", content=endless())
    assert response.status_code == 413


async def test_stopping_ends_streams_and_waits(redis_url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.services.gateway.app._GRACE_S", 600)
    async with (
        running(redis_url) as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
        http.stream("GET", "/v1/sessions/s1/events") as response,
    ):
        waiting = asyncio.create_task(http.post("/v1/messages?wait=60", json={"content": "hi", "session_id": "s1"}))
        await wait_until("the message", lambda: store.call("XLEN", INBOUND.key()))
        async with in_time():
            await service.stop()
            assert (await waiting).status_code == 202
            async for _ in response.aiter_text():
                pass
