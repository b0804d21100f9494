"""Tool calls outside a conversation in a running system: made once, whatever is killed; asked for from everywhere."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.ports import free_port
from tests.support.processes.crew import Crew, crew
from tests.support.processes.gates import Gates
from tests.support.processes.up import PENTAD, Up
from tests.support.redis.redis_server import RedisServer
from tests.support.slow import rarely
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

SERVICES = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}


class Calling:
    """The processes, the gates at which their tools wait, and a client of the gateway."""

    def __init__(self, team: Crew, gates: Gates, agent: pentad.Agent) -> None:
        self.team, self.gates, self.agent = team, gates, agent

    async def started(self, tag: str, times: int = 1) -> None:
        """Wait until a tool was started so often."""
        await wait_until(f"{times} starts of {tag}", lambda: len(self.gates.ledger(tag=tag)) >= times)

    async def killed(self, service: str) -> None:
        """``kill -9`` the process of a service, start it again, and wait until it serves."""
        [process] = self.team.named(service)
        await asyncio.to_thread(self.team.restart, process)
        await self.team.ready(process)


@asynccontextmanager
async def calling(folder: Path) -> AsyncIterator[Calling]:
    gates = Gates(folder / "gates")
    async with (
        RedisServer(aof="everysec") as server,
        crew(server.url, folder / "run", SERVICES, **gates.environment) as team,
        pentad.connect(team.named("gateway")[0].url) as agent,
    ):
        yield Calling(team, gates, agent)


@pytest.mark.parametrize("tool", rarely(["gate_pure", "gate_idempotent"], "gate_idempotent"))
async def test_a_call_that_may_run_again_survives_its_worker(tmp_path: Path, tool: str) -> None:
    async with calling(tmp_path) as running:
        asked = asyncio.create_task(running.agent.tools.execute(tool, {"gate": "g", "tag": "t"}))
        await running.started("t")
        await running.killed("tool-worker")
        await running.started("t", 2)
        running.gates.open("g")
        assert await asked == "passed t"
        first, second = running.gates.ledger(tag="t")
        assert (first.call, second.attempt) == (second.call, 2), (
            "its key is the same, and it is told that it runs again"
        )


async def test_an_unsafe_call_is_not_made_again_and_says_that_its_outcome_is_unknown(tmp_path: Path) -> None:
    async with calling(tmp_path) as running:
        about = {"gate": "g", "tag": "t"}
        asked = asyncio.create_task(running.agent.tools.call("gate_unsafe", about, call_id="once"))
        await running.started("t")
        await running.killed("tool-worker")
        run = await asked
        running.gates.open("g")
        assert run.status == "failed"
        assert run.error is not None
        assert run.error.message.startswith("outcome unknown")
        again = await running.agent.tools.call("gate_unsafe", about, call_id="once")
        assert again == run
        assert len(running.gates.ledger(tag="t")) == 1
        with pytest.raises(pentad.ToolFailed, match="outcome unknown") as failed:
            await running.agent.tools.execute("gate_unsafe", about, call_id="once")
        assert failed.value.run == run


async def test_a_call_survives_the_runner_the_router_and_the_gateway_and_runs_once(tmp_path: Path) -> None:
    async with calling(tmp_path) as running:
        about = {"gate": "g", "tag": "t"}
        asked = asyncio.create_task(running.agent.tools.execute("gate_unsafe", about))
        await running.started("t")
        for service in ("task-runner", "router", "gateway"):
            await running.killed(service)
        running.gates.open("g")
        assert await asked == "passed t"
        assert len(running.gates.ledger(tag="t")) == 1


async def test_a_call_waits_for_its_result_apart_from_who_asked_and_is_cancelled_as_tasks_are(tmp_path: Path) -> None:
    async with calling(tmp_path) as running:
        tools = running.agent.tools
        begun = await tools.begin("gate_pure", {"gate": "g", "tag": "t"}, call_id="later")
        assert (begun.call_id, begun.ended) == ("later", False)
        await running.started("t")
        going_on = await tools.state("later")
        assert (going_on.status, going_on.tool, going_on.result) == ("active", "gate_pure", None)
        assert going_on.task_id is not None
        running.gates.open("g")
        ended = await tools.call("gate_pure", {"gate": "g", "tag": "t"}, call_id="later")
        assert (ended.status, ended.result, ended.task_id) == ("completed", "passed t", going_on.task_id)
        with pytest.raises(pentad.Conflict, match="accepted before with another text"):
            await tools.call("gate_pure", {"gate": "g", "tag": "other"}, call_id="later")
        stopped = await tools.begin("gate_pure", {"gate": "never", "tag": "c"})
        await running.started("c")
        task = (await tools.state(stopped.call_id)).task_id
        assert task is not None
        await running.agent.management.cancel_task(task)
        await wait_until("the cancel", lambda: _has(running, stopped.call_id, "cancelled"))
        late = await tools.call("gate_pure", {"gate": "never", "tag": "l"}, 1.0)
        assert late.error is not None
        assert (late.status, late.error.code) == ("failed", "deadline_exceeded")


async def _has(running: Calling, call_id: str, status: str) -> bool:
    return (await running.agent.tools.state(call_id)).status == status


def command(up: Up, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run `pentad tool call` beside a running `pentad up`."""
    given = [sys.executable, "-m", "pentad.cli.main", "tool", "call", *args, "--url", up.url]
    return subprocess.run(given, capture_output=True, text=True, timeout=60, check=False)


async def test_the_command_prints_the_result_and_says_what_exists(tmp_path: Path) -> None:
    with Up(tmp_path, {"PENTAD_PLUGINS": ""}, (str(PENTAD), "up", "--port", str(free_port()))) as up:
        url = await up.ready()

        async def ran(*args: str) -> tuple[int, str, str]:
            done = await asyncio.to_thread(command, up, *args)
            return done.returncode, done.stdout, done.stderr

        assert await ran("calculator", '{"expression":"2**10"}') == (0, "1024\n", "")
        code, out, err = await ran("calculator", '{"expression":"1/0"}')
        assert (code, out) == (1, "")
        assert err == "tool calculator gave no result: tool_error: calculator: division by zero\n"
        code, out, err = await ran("abacus", "{}")
        assert (code, out) == (1, "")
        assert "there is no such tool; there are: calculator, echo, " in err
        assert "get_time" in err
        code, out, err = await ran("echo", "{")
        assert (code, out) == (2, "")
        assert "the arguments are no JSON" in err
        code, out, _ = await ran("echo", '{"text":"a"}', "--json", "--user", "ada", "--call-id", "c1")
        run = json.loads(out)
        assert (code, run["status"], run["result"], run["call_id"]) == (0, "completed", "a", "c1")
        async with pentad.connect(url) as agent:
            task = await agent.inspection.task(run["task_id"])
            assert (task.instruction, task.user_id, task.status) == ("direct_call", "ada", "completed")
            assert [each["session_id"] for each in await agent.inspection.sessions()] == []
            assert await _archived(agent, run) == run


async def _archived(agent: pentad.Agent, run: dict[str, Any]) -> dict[str, Any]:
    """The call as it is told when its task is a record."""
    await agent.management.archive_task(run["task_id"])

    async def there() -> bool:
        return (await agent.inspection.task(run["task_id"])).archived_at is not None

    await wait_until("the record", there)
    return (await agent.tools.state(run["call_id"])).model_dump(mode="json")
