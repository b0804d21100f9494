"""Approvals survive every process: what waits for a person waits in Redis alone."""

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

WAITING = 500
SOON_S = 5.0
"""Seconds within which an allowed call has run and its task has ended; it takes well under one on an idle machine."""
COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}


async def test_of_calls_that_wait_while_everything_is_killed_the_one_that_is_allowed_goes_on(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    gates.open("all")
    settings = {"PENTAD_APPROVE": "all", **gates.environment}
    names = [f"w{n}" for n in range(WAITING)]
    async with (
        RedisServer(aof="always") as server,
        ScriptedModel(planned, record=False) as model,
        crew(server.url, tmp_path / "run", COUNTS, LLM_BASE_URL=model.base_url, **settings) as team,
        Bus(server.url) as bus,
    ):
        for name in names:
            await bus.send(plan([("gate_unsafe", {"gate": "all", "tag": name})]), name)
        await bus.until_last(names, "task_status", 120)
        await wait_until("no process to have work in hand", lambda: nothing_in_hand(bus, WAITING))
        for process in team.processes:
            team.kill(process)
        server.kill9()
        server.start()
        for process in team.processes:
            team.start(process)
        for process in team.processes:
            await team.ready(process)
        (gateway,) = team.named("gateway")
        async with httpx2.AsyncClient(base_url=gateway.url, trust_env=False, timeout=30) as http:
            waiting = await listed(http)
            assert {each["session_id"] for each in waiting} == set(names)
            (one,) = [each for each in waiting if each["session_id"] == "w7"]
            url = f"/v1/tasks/{one['task_id']}/approvals/{one['tool_call_id']}"
            begun = time.monotonic()
            for _ in range(2):
                decided = await http.post(url, json={"approved": True, "args_digest": one["args_digest"]})
                assert decided.status_code == 200, decided.text
            await bus.until("w7", "task_end")
            took = time.monotonic() - begun
            print(f"of {WAITING} calls that waited, the one that was allowed has run and its task ended: {took:.3f} s")
            assert took < SOON_S
            left = await listed(http)
        assert {each["session_id"] for each in left} == {*names} - {"w7"}
        assert [started.tag for started in gates.ledger()] == ["w7"]
        (result,) = await bus.events("w7", "tool_result")
        assert result["result"] == "passed w7"


async def listed(http: httpx2.AsyncClient) -> list[dict[str, Any]]:
    """All calls that wait, page by page."""
    found, cursor = list[dict[str, Any]](), ""
    while True:
        page = (await http.get(f"/v1/approvals?limit=100{cursor}")).json()
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


async def nothing_in_hand(bus: Bus, tasks: int) -> bool:
    """Whether so many tasks wait, and no worker holds a lease or an entry of a stream for any of them."""
    names = [name async for name in bus.redis.scan_iter("pentad:{0}:task:default:*") if name.count(":") == 4]
    for name in names:
        held, status, calls = await bus.redis.hmget(name, "exp", "status", "open")
        if status != "waiting" or held != "0" or json.loads(calls)[0][3] != "approval":
            return False
    for stream in ("pentad:{0}:wake:task", "pentad:{0}:tools:default"):
        for group in await bus.redis.xinfo_groups(stream) if await bus.redis.exists(stream) else ():
            if group["pending"] or group["lag"]:
                return False
    return len(names) == tasks
