"""``pentad up`` as a process: one command, an embedded Redis, and nothing left of either afterwards."""

import asyncio
import json
import os
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from pentad.contracts.streams import SERVICES
from pentad.shared.embedded.redis_child import ask
from tests.integration.service.asking import get
from tests.integration.service.processes import Started
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, wait_until

_SYSTEM = "tests.integration.service.system"
_OTHERS = [name for name in SERVICES if name != "gateway"]


def up(folder: Path, *words: str, **environment: str) -> Started:
    (folder / "data").mkdir(exist_ok=True)
    return Started(folder, _SYSTEM, "up", "--data-dir", str(folder / "data"), "--port", "0", *words, **environment)


def redis_url(folder: Path) -> str:
    return (folder / "data" / "redis.url").read_text()


def story(folder: Path) -> list[str]:
    return (folder / "data" / "story").read_text().splitlines()


async def test_all_six_are_ready_when_it_says_so(tmp_path: Path) -> None:
    with up(tmp_path) as system:
        address = await system.ready()
        assert system.out == f"ready on {address}\n"
        status, checks = await get(f"{address}/readyz")
        assert (status, json.loads(checks)) == (200, {f"{name}.play": None for name in SERVICES})
        assert await ask(redis_url(tmp_path), "GET", "starts:router") == "1"


async def test_ctrl_c_stops_all_in_reverse_order_and_leaves_no_process(tmp_path: Path) -> None:
    with up(tmp_path) as system:
        await system.ready()
        assert system.descendants()
        system.signal_group(SIGINT)
        assert await system.exit_code() == 0
        assert system.descendants() == []
    started = [line.removeprefix("start ") for line in story(tmp_path) if line.startswith("start")]
    assert started == [*_OTHERS, "gateway"]
    assert story(tmp_path)[6:] == [f"stop {name}" for name in reversed(started)]
    assert not (tmp_path / "data" / "redis.url").exists()
    assert system.err == ""


async def test_its_address_stands_in_the_data_directory_while_it_runs(tmp_path: Path) -> None:
    written = tmp_path / "data" / "gateway.url"
    with up(tmp_path) as system:
        assert await system.ready() == written.read_text()
        system.signal(SIGTERM)
        assert await system.exit_code() == 0
    assert not written.exists()
    with up(tmp_path) as system:
        address = await system.ready()
        system.signal(SIGKILL)
        await system.exit_code()
        await system.gone()
    assert written.read_text() == address, "a killed one cannot clean up: its clients are told that it is gone"


async def test_sigterm_and_a_second_start_keep_the_data(tmp_path: Path) -> None:
    for count in ("1", "2"):
        with up(tmp_path) as system:
            await system.ready()
            assert await ask(redis_url(tmp_path), "GET", "starts:router") == count
            system.signal(SIGTERM)
            assert await system.exit_code() == 0
            assert system.descendants() == []


async def test_kill_9_leaves_no_redis_and_loses_nothing(tmp_path: Path) -> None:
    with up(tmp_path, PENTAD_REDIS_FSYNC="always") as system:
        await system.ready()
        system.signal(SIGKILL)
        await system.exit_code()
        await system.gone()
    with up(tmp_path) as system:
        await system.ready()
        assert await ask(redis_url(tmp_path), "GET", "starts:gateway") == "2"


async def test_started_again_while_the_killed_one_s_redis_still_ends(tmp_path: Path) -> None:
    with up(tmp_path) as first:
        await first.ready()
        first.signal_group(SIGKILL)
        with up(tmp_path) as second:
            await second.ready()
            assert await ask(redis_url(tmp_path), "GET", "starts:gateway") == "2"


async def test_the_second_on_a_data_directory_is_told_who_is_there(tmp_path: Path) -> None:
    with up(tmp_path) as first:
        await first.ready()
        with Started(tmp_path / "data", _SYSTEM, "up", "--data-dir", str(tmp_path / "data")) as second:
            assert await second.exit_code() == 1
            (line,) = second.err.splitlines()
            assert line.startswith(f"pentad: process {first.process.pid} already runs on the data directory")
            first.signal(SIGTERM)
            await first.exit_code()


async def test_redis_url_means_no_redis_of_our_own(tmp_path: Path) -> None:
    async with RedisServer() as redis:
        with up(tmp_path, REDIS_URL=redis.url) as system:
            await system.ready()
            assert not (tmp_path / "data" / "redis.url").exists()
            assert b"1" in redis.command("GET", "starts:gateway")


async def test_a_service_that_dies_ends_the_system_and_its_redis(tmp_path: Path) -> None:
    with up(tmp_path) as system:
        await system.ready()
        (tmp_path / "data" / "play").write_text("embedding die\n")
        assert await system.exit_code() == 1
        assert system.descendants() == []
    assert system.err.strip() == "pentad: embedding has died (see the log)"


async def test_a_redis_that_is_killed_comes_back_under_the_running_system(tmp_path: Path) -> None:
    with up(tmp_path) as system:
        await system.ready()
        port = redis_url(tmp_path)
        pid = json.loads((tmp_path / "data" / "redis" / "server.json").read_text())["pid"]
        os.kill(pid, SIGKILL)
        await wait_until("Redis to run again", lambda: "runs again with its data" in system.err)
        assert await ask(port, "GET", "starts:router") == "1"
        system.signal(SIGTERM)
        assert await system.exit_code() == 0
        assert system.descendants() == []


async def test_signals_while_it_starts_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "play").write_text("archiver wait\n")
    with up(tmp_path) as system:
        told = tmp_path / "data" / "story"
        await wait_until("the first services", lambda: told.exists() and "embedding" in told.read_text())
        system.signal(SIGTERM)
        assert await system.exit_code() == 0
        assert system.descendants() == []
    assert system.out == ""


@pytest.mark.parametrize("keys", ["", "sesame:acme"])
async def test_an_address_that_others_reach_needs_keys(tmp_path: Path, keys: str) -> None:
    # 127.0.0.1 would do for nobody else; this name is of no address here, so the one with keys fails later.
    with up(tmp_path, "--host", "203.0.113.7", PENTAD_API_KEYS=keys) as system:
        assert await system.exit_code() == 1
        assert system.descendants() == []
    wanted = "cannot listen on 203.0.113.7" if keys else "PENTAD_API_KEYS is not set"
    assert wanted in system.err
    assert len(system.err.splitlines()) == 1


async def test_websockets_are_told_that_it_restarts(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    with up(tmp_path) as system:
        address = await system.ready()
        async with connect(address.replace("http", "ws") + "/v1/ws") as socket:
            system.signal(SIGTERM)
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert await system.exit_code() == 0
