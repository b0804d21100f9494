"""Law 5: nothing lives only in a process. A thousand tasks that wait cost the runner no memory and hold up nobody."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import LONG, crew, rss
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

WAITING = 1000
GROWTH_MB = 20
SERVED_S = 20.0
"""A tenth of a second as a rule. Held up, it would be for as long as the gate is closed."""
WAIT_S = 60.0 if LONG else 0.0
"""How long they wait at least; the short form waits until memory was measured and others were served."""


@pytest.mark.slow
async def test_a_thousand_waiting_tasks_cost_the_runner_no_memory_and_hold_up_nobody(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    counts = {"router": 1, "task-runner": 1, "tool-worker": 1}
    async with (
        RedisServer() as server,
        ScriptedModel(planned, record=False) as model,
        crew(
            server.url,
            tmp_path / "run",
            counts,
            LLM_BASE_URL=model.base_url,
            PENTAD_TOOL_CONCURRENCY=str(WAITING + 100),
            PENTAD_TASKS_PER_TENANT=str(WAITING + 100),
            **gates.environment,
        ) as team,
        Bus(server.url) as bus,
    ):
        runner = team.pid("task-runner")
        await converse(bus, 30, "warm")
        before = rss(runner)
        names = [f"w{n}" for n in range(WAITING)]
        for name in names:
            await bus.send(plan([("gate_pure", {"gate": "all", "tag": name})]), name)
        await wait_until("all tools to run", lambda: len(gates.ledger()) >= WAITING)
        begun, during = time.monotonic(), rss(runner)
        slowest = await converse(bus, 10, "other")
        await asyncio.sleep(max(0.0, begun + WAIT_S - time.monotonic()))  # the minute of the long form
        during = max(during, rss(runner))
        gates.open("all")
        await bus.until_last(names, "task_end", 60)
        results = [(await bus.events(name, "tool_result"))[0]["result"] for name in names]
    print(f"\nrunner {before:.1f} MB, with {WAITING} waiting tasks {during:.1f} MB; others served in {slowest:.2f} s")
    assert results == [f"passed {name}" for name in names]
    assert [s.tag for s in gates.ledger("end") if s.attempt != 1] == []
    assert during - before < GROWTH_MB
    assert slowest < SERVED_S


async def converse(bus: Bus, turns: int, session: str) -> float:
    """Turns with a tool call, one after the other; returns the seconds of the slowest."""
    slowest = 0.0
    for n in range(1, turns + 1):
        begun = time.monotonic()
        await bus.send(plan([("echo", {"text": "hello"})]), session)
        await bus.until(session, "task_end", count=n)
        slowest = max(slowest, time.monotonic() - begun)
    return slowest
