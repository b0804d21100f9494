"""A lost reply is not a lost command: a refusal names the message, and says when it may have been accepted."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.tasks import patience
from pentad.shared.inbound import backlog
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, wait_until

BODY = {"content": "transfer 100 EUR", "session_id": "s1"}


@pytest.fixture
def redis() -> Any:
    """A Redis of this test's own, to be paused."""
    with RedisServer() as server:
        yield server


@pytest.fixture
async def served(redis: RedisServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayService]:
    """A gateway that knows how much waits, and is soon out of patience."""
    monkeypatch.setattr(backlog, "_FRESH_S", 3600.0)
    async with running(redis.url, pentad_data_dir=tmp_path) as service:
        async with httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http:
            await http.post("/v1/messages", json={"content": "first", "session_id": "s1"})
        monkeypatch.setattr(patience, "PATIENCE_S", 0.4)
        yield service
        redis.resume()


@pytest.fixture
async def http(served: GatewayService) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=served.address, trust_env=False, timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture
def answered(served: GatewayService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has time for its answer, however busy this machine is."""
    monkeypatch.setattr(patience, "PATIENCE_S", 3.0)
    monkeypatch.setattr(patience, "_MIN_ATTEMPT_S", 2.5)


async def appended(redis: RedisServer) -> set[tuple[str, str]]:
    """Ids and contents of what was appended behind the first."""
    store = Store(redis.url)
    entries = await store.call("XRANGE", INBOUND.key(), "-", "+")
    await store.close()
    bodies = [json.loads(fields[1]) for _, fields in entries[1:]]
    return {(body["message_id"], body["content"]) for body in bodies}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?wait=0.1"])
@pytest.mark.parametrize("given", [{}, {"message_id": "mine"}])
async def test_a_message_whose_append_was_not_answered_is_in_doubt_and_named(
    redis: RedisServer, http: httpx2.AsyncClient, path: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the stream once Redis goes on; sent again as the refusal says, it is the same message."""
    # The look for an earlier one comes before the append, and is answered.
    monkeypatch.setattr("pentad.services.gateway.tasks.message_intake.MessageIntake.is_repeat", _new)
    if "wait" in path:
        monkeypatch.setattr("pentad.services.gateway.tasks.turn_stream.TurnStreams.open", _subscribed)
    redis.pause()
    refused = await http.post(path, json=BODY | given)
    redis.resume()
    problem = refused.json()
    assert (refused.status_code, problem["in_doubt"]) == (503, True)
    assert "may have been accepted or not" in problem["detail"]
    assert problem["message_id"] == given.get("message_id", problem["message_id"])
    again = await http.post("/v1/messages", json=BODY | {"message_id": problem["message_id"]})
    assert again.status_code == 202
    assert await appended(redis) == {(problem["message_id"], BODY["content"])}


async def _new(*_: Any) -> bool:
    return False


class _Nothing:
    def close(self) -> None:
        pass


async def _subscribed(*_: Any) -> Any:
    return _Nothing()


async def test_over_a_websocket_it_is_an_error_frame_that_names_it(redis: RedisServer, served: GatewayService) -> None:
    async with opened(served.address) as client:
        redis.pause()
        await client.send(type="message", content="transfer 100 EUR")
        refused = await client.receive()
        redis.resume()
        assert (refused["type"], refused["code"], refused["in_doubt"]) == ("error", "busy", True)
        await client.send(type="message", content="transfer 100 EUR", message_id=refused["message_id"])
        frames = await client.until(lambda frame: frame["type"] == "accepted")
    assert frames[-1]["message_id"] == refused["message_id"]
    assert await appended(redis) == {(refused["message_id"], "transfer 100 EUR")}


async def test_a_short_silence_is_waited_out(
    redis: RedisServer, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 30.0)
    asking = asyncio.create_task(http.post("/v1/messages", json=BODY))
    redis.restart()
    response = await asking
    assert response.status_code == 202
    assert {message_id for message_id, _ in await appended(redis)} <= {response.json()["message_id"]}


@pytest.mark.usefixtures("answered")
async def test_what_the_store_itself_refuses_was_not_appended(redis: RedisServer, http: httpx2.AsyncClient) -> None:
    redis.command("CONFIG", "SET", "maxmemory", "1")
    refused = await http.post("/v1/messages", json=BODY)
    redis.command("CONFIG", "SET", "maxmemory", "0")
    problem = refused.json()
    assert (refused.status_code, "in_doubt" in problem) == (503, False)
    assert "nothing was appended" in problem["detail"]
    assert problem["message_id"]
    assert await appended(redis) == set()


async def test_a_refusal_for_too_much_work_names_the_message_too(
    redis: RedisServer, served: GatewayService, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served._parts.tasks.intake, "_limit", 0)
    refused = await http.post("/v1/messages", json=BODY)
    assert (refused.status_code, "in_doubt" in refused.json()) == (429, False)
    assert refused.json()["message_id"]


async def test_a_cancel_that_was_not_answered_is_in_doubt(redis: RedisServer, http: httpx2.AsyncClient) -> None:
    store = Store(redis.url)
    keys = await Speaker(store).task()
    redis.pause()
    refused = await http.post(f"/v1/tasks/{TASK}/cancel")
    redis.resume()
    assert (refused.status_code, refused.json()["in_doubt"]) == (503, True)
    assert (await http.post(f"/v1/tasks/{TASK}/cancel")).status_code == 202
    await wait_until("the cancel", lambda: store.call("ZCARD", keys.signals))
    assert await store.call("ZCARD", keys.signals) == 1, "it was asked once"
    await store.close()


@pytest.mark.usefixtures("answered")
async def test_a_stream_of_another_type_is_no_fault_of_ours(redis: RedisServer, http: httpx2.AsyncClient) -> None:
    redis.command("DEL", INBOUND.key())
    redis.command("SET", INBOUND.key(), "x")
    refused = await http.post("/v1/messages", json=BODY)
    assert (refused.status_code, "in_doubt" in refused.json()) == (503, False)
    assert "nothing was appended" in refused.json()["detail"]
