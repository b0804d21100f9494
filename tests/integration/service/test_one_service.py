"""``python -m services.NAME``: one service as a process of its own."""

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import pytest

from pentad.shared.service.run import STOP_LIMIT_S
from tests.integration.service.asking import get
from tests.integration.service.processes import Started
from tests.support.ports import free_port
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

_SYSTEM = "tests.integration.service.system"


@pytest.fixture
async def redis() -> AsyncIterator[RedisServer]:
    async with RedisServer() as server:
        yield server


def serve(folder: Path, redis: RedisServer, name: str, *words: str, **environment: str) -> Started:
    settings = {"REDIS_URL": redis.url, "PENTAD_DATA_DIR": str(folder)} | environment
    return Started(folder, _SYSTEM, name, *words, **settings)


def story(folder: Path) -> list[str]:
    told = folder / "story"
    return told.read_text().splitlines() if told.exists() else []


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
async def test_serves_its_health_and_stops_cleanly(tmp_path: Path, redis: RedisServer, number: Signals) -> None:
    with serve(tmp_path, redis, "router", "--port", "0") as service:
        address = await service.ready()
        assert service.out == f"router ready on {address}\n"
        assert await get(f"{address}/healthz") == (200, "ok")
        status, checks = await get(f"{address}/readyz")
        assert (status, json.loads(checks)) == (200, {"router.play": None, "router.start": None})
        status, page = await get(f"{address}/metrics")
        assert status == 200
        assert "# TYPE pentad_messages_consumed_total counter" in page
        assert "process_cpu_seconds_total" in page
        service.signal(number)
        assert await service.exit_code() == 0
    assert story(tmp_path) == ["start router", "stop router"]
    assert service.err == ""


async def test_health_answers_while_it_waits_to_start(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "play").write_text("embedding wait\n")
    port = free_port()
    with serve(tmp_path, redis, "embedding", "--port", str(port)) as service:
        await wait_until("the port to be taken", lambda: answers(port))
        assert (await get(f"http://127.0.0.1:{port}/healthz"))[0] == 200
        status, checks = await get(f"http://127.0.0.1:{port}/readyz")
        assert (status, json.loads(checks)["embedding.start"]) == (503, "still starting")
        assert service.out == ""
        (tmp_path / "play").unlink()
        await service.ready()
        assert (await get(f"http://127.0.0.1:{port}/readyz"))[0] == 200


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_start_that_waits_can_be_stopped(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "play").write_text("embedding wait\n")
    with serve(tmp_path, redis, "embedding", "--port", "0") as service:
        await wait_until("it to wait", lambda: story(tmp_path) == ["wait embedding"])
        service.signal(SIGTERM)
        assert await service.exit_code() == 0
    assert service.out == ""
    assert story(tmp_path)[-1] == "stop embedding"


async def test_a_part_that_dies_ends_the_process_and_says_which(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "archiver", "--port", "0") as service:
        address = await service.ready()
        (tmp_path / "play").write_text("archiver die\narchiver unready\n")
        assert await service.exit_code() == 1
    assert service.err.strip() == "python -m services.archiver: archiver has died (archiver.play: the play says no)"
    assert story(tmp_path)[-1] == "stop archiver"
    assert address


async def test_a_start_that_fails_is_one_line(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "play").write_text("router fail\n")
    with serve(tmp_path, redis, "router", "--port", "0") as service:
        assert await service.exit_code() == 1
    assert service.err.strip() == "python -m services.router: router cannot start: the play says so"


async def test_a_second_signal_hurries_a_stop_that_hangs(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "play").write_text("tool-worker hang\n")
    with serve(tmp_path, redis, "tool-worker", "--port", "0", "--log-level", "info") as service:
        await service.ready()
        service.signal(SIGTERM)
        await wait_until("the first signal to be heard", lambda: "stopping" in service.err)
        service.signal(SIGTERM)
        assert await service.exit_code(STOP_LIMIT_S - 5) == 1
    assert "tool-worker did not stop in time" in service.err


async def test_an_explicit_port_that_is_taken_is_refused_in_one_line(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "router", "--port", str(redis.port)) as service:
        assert await service.exit_code() == 1
    (line,) = service.err.splitlines()
    assert f"port {redis.port} on 127.0.0.1 is taken: choose another with --port" in line


async def test_two_of_a_kind_share_a_machine(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "archiver") as one, serve(tmp_path, redis, "archiver") as two:
        assert await one.ready() != await two.ready()


async def test_no_redis_address_says_what_to_do(tmp_path: Path) -> None:
    with Started(tmp_path, _SYSTEM, "router") as service:
        assert await service.exit_code() == 1
    (line,) = service.err.splitlines()
    assert "REDIS_URL is not set" in line
    assert "pentad up" in line


async def test_a_wrong_setting_is_named_without_its_value(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "gateway", PENTAD_API_KEYS="sesame", PENTAD_SHARDS="many") as service:
        assert await service.exit_code() == 1
    (line,) = service.err.splitlines()
    assert "PENTAD_API_KEYS is wrong" in line
    assert "PENTAD_SHARDS is wrong" in line
    assert "sesame" not in line
    assert "many" not in line


async def test_wrong_usage_is_exit_code_2(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "router", "--port", "high") as service:
        assert await service.exit_code() == 2
    assert "'high' is not a port" in service.err


async def test_an_open_gateway_stays_on_loopback(tmp_path: Path, redis: RedisServer) -> None:
    with serve(
        tmp_path, redis, "gateway", "--host", "0.0.0.0", "--port", "0"
    ) as service:  # it refuses before it listens
        assert await service.exit_code() == 1
    (line,) = service.err.splitlines()
    assert "PENTAD_API_KEYS is not set: a gateway on 0.0.0.0 needs it" in line


async def test_debug_shows_where(tmp_path: Path) -> None:
    with Started(tmp_path, _SYSTEM, "router", "--debug") as service:
        assert await service.exit_code() == 1
    assert "Traceback" in service.err


async def test_a_misspelt_variable_is_told_once_and_refuses_nothing(tmp_path: Path, redis: RedisServer) -> None:
    with serve(tmp_path, redis, "router", PENTAD_SHARD="2") as service:
        await service.ready()
        service.signal(SIGTERM)
        assert await service.exit_code() == 0
    told = "python -m services.router: PENTAD_SHARD is not a setting and is ignored: did you mean PENTAD_SHARDS?"
    assert service.err.splitlines() == [told]
