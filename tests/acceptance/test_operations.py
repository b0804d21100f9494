"""The live system of real processes: turns and tokens are counted, and a worker that is paused or killed is seen."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.contracts.operations import GroupState, Operations, ServiceState
from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import crew
from tests.support.processes.gates import plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}


async def test_a_paused_and_a_killed_worker_are_seen_and_what_was_done_is_counted(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        ScriptedModel(planned, record=False) as model,
        crew(server.url, tmp_path / "run", COUNTS, LLM_BASE_URL=model.base_url, PENTAD_ADMIN_KEY="boss") as team,
        Bus(server.url) as bus,
        pentad.connect(team.named("gateway")[0].url, admin_key="boss") as agent,
    ):

        async def until(what: str, holds: Callable[[Operations], Any]) -> Operations:
            async def look() -> Operations | None:
                found = await agent.inspection.operations()
                return found if holds(found) else None

            found = await wait_until(what, look)
            assert found is not None
            return found

        [worker] = team.named("tool-worker")
        await until("all services", lambda one: {*COUNTS} <= {each.service for each in one.services if each.alive})
        await bus.send(plan([("echo", {"text": "a"})]), "s1")
        await bus.until("s1", "task_end")
        done = await until("the counts", lambda one: one.totals.turns and one.totals.tool_calls)
        assert (done.totals.turns, done.totals.steps, done.totals.tool_calls) == (1, 2, 1)
        assert done.totals.output_tokens > 0
        team.pause(worker)
        await bus.send(plan([("echo", {"text": "b"})]), "s2")
        paused = await until("a call that waits", lambda one: (_calls(one).lag or 0) + _calls(one).pending)
        assert _calls(paused).oldest_s is not None
        silent = await until("its silence", lambda one: not _worker(one).alive)
        assert silent.tasks.active == 1
        assert [each.status for each in silent.tasks.newest] == ["active"]
        team.resume(worker)
        await bus.until("s2", "task_end")
        well = await until("the end of it", lambda one: _worker(one).alive and not _calls(one).pending)
        assert (_calls(well).lag, _calls(well).oldest_s) == (0, None)
        team.kill(worker)
        killed = await until("its silence", lambda one: not _worker(one).alive)
        assert {each.service for each in killed.services if each.alive} == {"gateway", "router", "task-runner"}


def _calls(found: Operations) -> GroupState:
    [calls] = [each for each in found.streams if each.stream == "tool-calls"]
    return calls.groups[0]


def _worker(found: Operations) -> ServiceState:
    [worker] = [each for each in found.services if each.service == "tool-worker"]
    return worker
