"""Redis goes away: connections stay, nothing is taken unsafely, and what was lost is said (hazards 10, 12)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService, build
from pentad.services.gateway.tasks import patience
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_cursors import gap
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, in_time, wait_until


@pytest.fixture
async def redis() -> AsyncIterator[RedisServer]:
    """A Redis of this test's own that keeps everything it confirmed."""
    async with RedisServer(aof="always") as server:
        yield server


@pytest.fixture
async def served(redis: RedisServer, tmp_path: Any) -> AsyncIterator[GatewayService]:
    """A gateway over it."""
    async with running(redis.url, pentad_data_dir=tmp_path) as service:
        yield service


@pytest.fixture
async def talker(redis: RedisServer) -> AsyncIterator[Speaker]:
    """Router and runner over it."""
    store = Store(redis.url)
    yield Speaker(store)
    await store.close()


async def again(store: Store) -> None:
    """Wait until this store's connections are good again."""

    async def answers() -> bool:
        try:
            return bool(await store.call("PING"))
        except Exception:
            return False

    await wait_until("Redis", answers)


async def test_connections_survive_a_killed_redis(redis: RedisServer, served: GatewayService, talker: Speaker) -> None:
    async with opened(served.address) as client:
        await talker.say("task_start", goal="before")
        before = await client.receive()
        redis.kill9()
        await client.send(type="message", content="x")
        refused = await client.receive()
        assert (refused["code"], refused["retry_after"]) == ("busy", 1.0)
        redis.start()
        await again(talker.store)
        await talker.say("task_start", goal="after")
        after = await client.receive()
        assert (before["goal"], after["goal"]) == ("before", "after")
        await wait_until("readiness", lambda: served.checks()["relay"] is None)
        await client.send(type="message", content="x", message_id="m1")
        assert (await client.receive())["type"] == "accepted"


async def test_rest_answers_503_with_retry_after(
    redis: RedisServer, served: GatewayService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.5)
    redis.kill9()
    async with httpx2.AsyncClient(base_url=served.address, trust_env=False, timeout=PATIENCE_S) as http:
        for response in (
            await http.post("/v1/messages", json={"content": "x", "session_id": "s1"}),
            await http.get("/v1/sessions"),
            await http.get("/v1/sessions/s1/events"),
            await http.post("/v1/messages?wait=1", json={"content": "x", "session_id": "s1"}),
            await http.post("/v1/tasks/task-0-a/cancel"),
        ):
            assert response.status_code == 503
            assert response.headers["content-type"] == "application/problem+json"
            assert int(response.headers["retry-after"]) >= 1
        assert (await http.get("/healthz")).status_code == 200
        await wait_until("unreadiness", lambda: served.checks()["relay"] is not None)
        assert (await http.get("/readyz")).status_code == 503
        redis.start()
        await wait_until("readiness without a request", lambda: not any(served.checks().values()))


async def test_a_full_redis_takes_nothing_and_says_busy(
    redis: RedisServer, served: GatewayService, talker: Speaker
) -> None:
    redis.command("CONFIG", "SET", "maxmemory", "1")
    async with opened(served.address) as client:
        await client.send(type="message", content="x")
        refused = await client.receive()
        assert refused["code"] == "busy"
    assert await talker.store.call("XLEN", INBOUND.key()) == 0


async def test_a_message_that_redis_lost_is_said_to_be_lost(
    redis: RedisServer, served: GatewayService, talker: Speaker
) -> None:
    async with opened(served.address) as client:
        for message_id in ("kept", "lost", "routed"):
            await client.send(type="message", content="x", message_id=message_id)
            await client.receive()
        entries = await talker.store.call("XRANGE", INBOUND.key(), "-", "+")
        # What a Redis without fsync loses, taken away by hand: this one loses nothing.
        await talker.store.call("XDEL", INBOUND.key(), entries[1][0], entries[2][0])
        await talker.store.call("SET", "pentad:{0}:seen:default:s1:routed", entries[2][0])
        redis.restart()
        error = await client.receive()
        assert (error["code"], error["message_id"]) == ("internal", "lost")
        assert "id" in error
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.receive()


async def test_events_that_redis_lost_are_a_gap(redis: RedisServer, served: GatewayService, talker: Speaker) -> None:
    async with opened(served.address) as client:
        await talker.say("task_start", goal="kept")
        lost = await talker.say("task_start", goal="lost")
        await client.until(lambda frame: frame["goal"] == "lost")
        await talker.store.call("XDEL", talker.keys.events, lost)
        redis.restart()
        await gap(client)
        await again(talker.store)
        await talker.say("task_start", goal="next")
        assert (await client.receive())["goal"] == "next"


async def test_it_waits_for_a_redis_that_comes_later(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    redis.kill9()

    async def start() -> None:
        async with running(redis.url):
            pass

    starting = asyncio.create_task(start())
    await wait_until("the complaint", lambda: "gateway waits for Redis" in caplog.text)
    redis.start()
    await starting


async def test_a_gateway_that_starts_without_redis_says_so_and_serves_when_it_comes(
    redis: RedisServer, tmp_path: Any
) -> None:
    redis.kill9()
    service = build(load_settings({}, redis_url=redis.url, pentad_data_dir=tmp_path), "127.0.0.1", 0)
    starting = asyncio.create_task(service.start())
    await wait_until("the port", lambda: service.address)
    try:
        async with httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http:
            assert (await http.get("/healthz")).status_code == 200, "restarting it would not bring Redis back"
            unready = await http.get("/readyz")
            assert (unready.status_code, unready.json()["gateway.start"]) == (503, "still starting")
            assert "unavailable" in unready.json()["gateway.redis"]
            refused = await http.post("/v1/messages", json={"content": "x", "session_id": "s1"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "the gateway is starting" in refused.json()["detail"]
            with pytest.raises(InvalidStatus, match="503"):
                async with opened(service.address):
                    pass
            redis.start()
            async with in_time():
                await starting
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.get("/v1/tasks")).status_code == 200
    finally:
        await cancel_and_wait(starting)
        await service.stop()
