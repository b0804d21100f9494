"""Limits of tools over real processes that are killed, and over a clock of Redis that steps."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.shared.keys import waiting_calls
from pentad.shared.store.store import Store
from tests.support.limited_calls import PLUGIN, Calls, most_at_once, most_within, with_kills, workers
from tests.support.processes import clocks
from tests.support.processes.crew import Crew, crew
from tests.support.processes.up import Up
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
            team.warm = False  # a forked worker hands calls over long before the child that makes them is there
            killing = asyncio.create_task(kill_now_and_then(team, kills))
            await few.ask("two_at_once", 60, seconds=0.3)
            await paced.ask("five_a_second", 40, tenant="paced", seconds=0.1)
            await wait_until("some kills", lambda: len(kills) >= 6)
            killing.cancel()
            await few.ended()
            await paced.ended()
        await store.close()
    assert most_at_once(with_kills(few.runs(), kills)) == 2
    # A call is counted when it is handed to its process, and begins a moment later, on a busy machine some tenths of a
    # second: a window is looked at by half, and all windows together.
    begun = [ran.start for ran in paced.runs()]
    assert most_within(paced.runs(), 0.5) <= 5
    assert begun[-1] - begun[0] > (len(begun) - 1) // 5 - 0.5
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


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Up, pentad.Agent]]:
    with Up(folder / "up", {"PENTAD_PLUGINS": PLUGIN}) as up:
        url = await up.ready()
        async with pentad.connect(url) as agent:
            yield up, agent


async def tool(agent: pentad.Agent, name: str) -> dict[str, Any]:
    """Return a tool as the gateway lists it."""
    return next(each for each in await agent.inspection.tools() if each["name"] == name)


def printed(up: Up) -> str:
    """Return what ``pentad tools`` prints beside a running ``pentad up``."""
    given = [sys.executable, "-m", "pentad.cli.main", "tools", "--url", up.url]
    return subprocess.run(given, capture_output=True, text=True, timeout=60, check=True).stdout


async def test_a_call_that_waits_for_its_turn_is_told_of_cancelled_and_given_up_as_any_other(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    async with running(tmp_path) as (up, agent):
        for n in range(2):
            await agent.tools.begin("two_at_once", {"ledger": ledger, "seconds": 30}, call_id=f"long{n}")
        calls = Calls(Store("redis://unused"), tmp_path / "ledger")
        await wait_until("two runs", lambda: len(calls.runs()) == 2)
        waits = await agent.tools.begin("two_at_once", {"ledger": ledger, "seconds": 0}, call_id="waits")
        late = asyncio.create_task(agent.tools.call("two_at_once", {"ledger": ledger, "seconds": 0}, 2.0))
        await wait_until("both to wait", lambda: _waiting(agent, 2))
        assert "2 at once, 2 waiting" in await asyncio.to_thread(printed, up)
        task = (await agent.tools.state(waits.call_id)).task_id
        assert task is not None
        await agent.management.cancel_task(task)
        await wait_until("the cancel", lambda: _status(agent, "waits", "cancelled"))
        given_up = await late
        assert given_up.error is not None
        assert given_up.error.code == "deadline_exceeded"
        for n in range(2):
            await agent.management.cancel_task(str((await agent.tools.state(f"long{n}")).task_id))
        assert await agent.tools.execute("two_at_once", {"ledger": ledger, "seconds": 0}) == "done"
        assert (await tool(agent, "two_at_once"))["waiting"] == 0
    assert len(calls.runs()) == 3, "what was cancelled while it waited has not begun"


async def _waiting(agent: pentad.Agent, count: int) -> bool:
    return bool((await tool(agent, "two_at_once"))["waiting"] == count)


async def _status(agent: pentad.Agent, call_id: str, status: str) -> bool:
    return (await agent.tools.state(call_id)).status == status


async def test_a_failing_tool_is_shown_to_be_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.with_name("ledger.broken").touch()
    async with running(tmp_path) as (up, agent):
        for n in range(3):
            with pytest.raises(pentad.ToolFailed, match="the service is down"):
                await agent.tools.execute("flaky", {"ledger": str(ledger), "number": n})
        await wait_until("the refusal", lambda: _refused(agent))
        with pytest.raises(pentad.ToolFailed, match=r"flaky has failed 3 times in a row .* calls are refused until"):
            await agent.tools.execute("flaky", {"ledger": str(ledger), "number": 9})
        shown = await asyncio.to_thread(printed, up)
        assert "flaky has failed 3 times in a row" in shown
        assert "refused until" in shown


async def _refused(agent: pentad.Agent) -> bool:
    return (await tool(agent, "flaky"))["refused"] is not None
