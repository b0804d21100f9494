"""Approvals survive every process: what waits for a person waits in Redis alone."""

from pathlib import Path

import httpx2
import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer

pytestmark = pytest.mark.acceptance

WAITING = 20
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
        await bus.until_last(names, "task_status", 60)
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
            waiting = (await http.get("/v1/approvals?limit=100")).json()["items"]
            assert {each["session_id"] for each in waiting} == set(names)
            (one,) = [each for each in waiting if each["session_id"] == "w7"]
            url = f"/v1/tasks/{one['task_id']}/approvals/{one['tool_call_id']}"
            for _ in range(2):
                decided = await http.post(url, json={"approved": True, "args_digest": one["args_digest"]})
                assert decided.status_code == 200, decided.text
            await bus.until("w7", "task_end")
            left = (await http.get("/v1/approvals?limit=100")).json()["items"]
        assert {each["session_id"] for each in left} == {*names} - {"w7"}
        assert [started.tag for started in gates.ledger()] == ["w7"]
        (result,) = await bus.events("w7", "tool_result")
        assert result["result"] == "passed w7"
