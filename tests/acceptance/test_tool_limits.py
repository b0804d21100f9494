"""Limits of tools over real processes that are killed, and over a clock of Redis that steps."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from pentad.shared.keys import waiting_calls
from pentad.shared.store.store import Store
from tests.support.limited_calls import PLUGIN, Calls, most_at_once, most_within, with_kills, workers
from tests.support.processes import clocks
from tests.support.processes.crew import Crew, crew
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance
_SETTINGS = {"PENTAD_PLUGINS": PLUGIN, "PENTAD_TOOL_PROCESSES": "1", "PENTAD_LEASE_S": "1"}


async def kill_now_and_then(team: Crew, kills: dict[int, float]) -> None:
    """``kill -9`` a tool-worker every second or so, and start it again."""
    while True:
        await asyncio.sleep(random.uniform(0.5, 1.5))
        process = random.choice(team.named("tool-worker"))
        assert process.running is not None
        pid = process.running.pid
        await asyncio.to_thread(team.kill, process)
        kills[pid] = time.monotonic()
        team.start(process)


async def test_limits_hold_over_three_workers_that_are_killed_again_and_again(tmp_path: Path) -> None:
    with RedisServer() as server:
        store, kills = Store(server.url), dict[int, float]()
        few, paced = Calls(store, tmp_path / "few"), Calls(store, tmp_path / "paced")
        async with crew(server.url, tmp_path / "run", {"tool-worker": 3}, **_SETTINGS) as team:
            killing = asyncio.create_task(kill_now_and_then(team, kills))
            await few.ask("two_at_once", 60, seconds=0.3)
            await paced.ask("five_a_second", 40, tenant="paced", seconds=0.1)
            await wait_until("some kills", lambda: len(kills) >= 6)
            killing.cancel()
            await few.ended()
            await paced.ended()
        await store.close()
    assert most_at_once(with_kills(few.runs(), kills)) == 2
    assert most_within(paced.runs(), 1.0) <= 5
    assert {ran.call for ran in few.runs()} == {call for _, call in few.asked}


async def test_an_unsafe_call_with_a_limit_runs_once_whatever_is_killed(tmp_path: Path) -> None:
    with RedisServer() as server:
        store, kills = Store(server.url), dict[int, float]()
        calls = Calls(store, tmp_path / "ledger")
        async with crew(server.url, tmp_path / "run", {"tool-worker": 2}, **_SETTINGS) as team:
            killing = asyncio.create_task(kill_now_and_then(team, kills))
            await calls.ask("one_unsafe", 20, seconds=0.3)
            await wait_until("some kills", lambda: len(kills) >= 4)
            killing.cancel()
            told = await calls.ended()
        await store.close()
    runs = with_kills(calls.runs(), kills)
    assert len({ran.call for ran in runs}) == len(runs), "no call has started twice"
    assert most_at_once(runs) == 1
    assert all(text == "done" or text.startswith("error: outcome unknown") for text in told.values())


@pytest.mark.skipif(bool(clocks.missing()), reason=clocks.missing() or "")
@pytest.mark.parametrize("seconds", [600, -600])
async def test_a_step_of_redis_clock_neither_exceeds_nor_stops_a_limit(tmp_path: Path, seconds: int) -> None:
    made, server = clocks.Clocks(tmp_path / "clocks"), RedisServer()
    server.clock = made.environment("redis")
    with server:
        store = Store(server.url)
        calls = Calls(store, tmp_path / "ledger")
        async with workers(store, 2, pentad_lease_s=1):
            await calls.ask("two_at_once", 10, seconds=1.2)
            await wait_until("two runs", lambda: len(calls.runs()) == 2)
            made.step(["redis"], seconds)
            await calls.ended()
        assert await store.call("HLEN", waiting_calls(0)) == 0
        await store.close()
    runs = calls.runs()
    assert (most_at_once(runs), len(runs)) == (2, 10)
    assert runs[-1].end - runs[0].start < 20
