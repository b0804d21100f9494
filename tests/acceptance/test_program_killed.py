"""A program of a model survives the death of its worker after each of its calls, and each call is made once."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.slow import rarely
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}
PROGRAM = """
import time
told = []
for n in range(CALLS):
    told.append(gate_unsafe(gate="all", tag=f"call{n}"))
    print("after", n)
    time.sleep(1.5)
told
"""
"""After each call it is at work for longer than a test needs to see that, and to kill its worker."""


@pytest.mark.parametrize("calls", rarely([2, 5], 2))
async def test_a_program_survives_its_worker_killed_after_each_call_and_makes_none_twice(
    tmp_path: Path, calls: int
) -> None:
    """The worker is killed while the program waits for a person, and again while it works with the call's result."""
    gates = Gates(tmp_path / "gates")
    gates.open("all")
    settings = {"PENTAD_CODE": "on", "PENTAD_APPROVE": "unsafe", "PENTAD_LEASE_S": "1", **gates.environment}
    async with (
        RedisServer(aof="always") as server,
        ScriptedModel(planned, record=False) as model,
        crew(server.url, tmp_path / "run", COUNTS, LLM_BASE_URL=model.base_url, **settings) as team,
        Bus(server.url) as bus,
        httpx2.AsyncClient(base_url=team.named("gateway")[0].url, trust_env=False, timeout=30) as http,
    ):
        (worker,) = team.named("tool-worker")
        await bus.send(plan([("run_program", {"code": PROGRAM.replace("CALLS", str(calls))})]), "s1")
        for n in range(calls):
            asked = (await bus.until("s1", "approval_request", n + 1))[n]
            team.restart(worker)
            await team.ready(worker)
            url = f"/v1/tasks/{asked['task_id']}/approvals/{asked['tool_call_id']}"
            assert (await http.post(url, json={"approved": True})).is_success
            await bus.until("s1", "tool_result", n + 1)
            await wait_until("the program to go on", partial(_is_at_work, bus, asked["task_id"]))
            team.restart(worker)
            await team.ready(worker)
        (end,) = await bus.until("s1", "task_end")
        assert (end["status"], worker.kills) == ("completed", 2 * calls)
        tags = [f"call{n}" for n in range(calls)]
        assert [(each.tag, each.attempt) for each in gates.ledger()] == [(tag, 1) for tag in tags]
        outer, *inner = await bus.events("s1", "tool_call")
        assert [each["parent_call_id"] for each in inner] == [outer["tool_call_id"]] * calls
        *_, result = await bus.events("s1", "tool_result")
        printed = "".join(f"after {n}\n" for n in range(calls))
        assert json.loads(result["result"]) == {"result": [f"passed {tag}" for tag in tags], "printed": printed}


async def _is_at_work(bus: Bus, task: str) -> Any:
    """Whether a worker has begun the one call that is open: it runs the program."""
    states = await bus.redis.hvals(f"pentad:{{0}}:task:default:{task}:calls")
    return [state for state in states if state.startswith("started")]
