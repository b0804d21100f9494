"""New code of plug-ins in running processes: calls finish on the old, a killed worker stops nobody."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import pentad
from tests.support.processes.crew import Crew, crew
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

SERVICES = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 2}
PLUGIN = """
import os, pathlib, time
import pentad

FOLDER = pathlib.Path({folder!r})

def wait_for(name):
    while not (FOLDER / name).exists():
        time.sleep(0.01)

{at_import}

@pentad.tool(effect="pure")
def version() -> str:
    return {version!r}

@pentad.tool(effect="unsafe")
def held() -> str:
    (FOLDER / "held").touch()
    wait_for("go on")
    return {version!r}
"""
HELD_IMPORT = '(FOLDER / f"importing-{os.getppid()}").touch(); wait_for("import")'


def write(folder: Path, version: str, at_import: str = "") -> None:
    (folder / "released_plugin.py").write_text(PLUGIN.format(folder=str(folder), version=version, at_import=at_import))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Crew, pentad.Agent]]:
    write(folder, "one")
    variables = {"PENTAD_PLUGINS": "released_plugin", "PYTHONPATH": str(folder), "PENTAD_ADMIN_KEY": "boss"}
    async with (
        RedisServer() as server,
        crew(server.url, folder / "run", SERVICES, **variables) as team,
        pentad.connect(team.named("gateway")[0].url, admin_key="boss") as agent,
    ):
        await wait_until("both workers have reported", lambda: _are(agent, 2))
        yield team, agent


async def _are(agent: pentad.Agent, number: int) -> bool:
    return len((await agent.inspection.plugins())["workers"]) == number


async def test_new_calls_run_the_new_code_and_a_running_call_ends_on_the_old(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, agent):
        assert await agent.tools.execute("version", {}) == "one"
        held = asyncio.create_task(agent.tools.execute("held", {}))
        await wait_until("the call runs", (tmp_path / "held").exists)
        write(tmp_path, "the second")
        told = await agent.management.reload_plugins()
        assert [each["state"] for each in told["workers"]] == ["done", "done"]
        assert {await agent.tools.execute("version", {}) for _ in range(6)} == {"the second"}
        write(tmp_path, "never seen", "1 / 0")
        told = await agent.management.reload_plugins()
        assert (told["done"], [each["state"] for each in told["workers"]]) == (True, ["failed", "failed"])
        assert "ZeroDivisionError" in told["workers"][0]["error"]
        assert await agent.tools.execute("version", {}) == "the second"
        (tmp_path / "go on").touch()
        assert await held == "one"


async def test_a_worker_that_is_killed_while_it_imports_does_not_stop_the_other(tmp_path: Path) -> None:
    async with running(tmp_path) as (team, agent):
        write(tmp_path, "the second", HELD_IMPORT)
        await agent.management.reload_plugins(0)
        [file] = await wait_until("one imports", lambda: list(tmp_path.glob("importing-*")))
        [victim] = [
            each for each in team.named("tool-worker") if _pid(each.running) == int(file.name.partition("-")[2])
        ]
        assert victim.running is not None
        victim.running.send_signal(signal.SIGKILL)
        await asyncio.to_thread(victim.running.wait)
        (tmp_path / "import").touch()
        await wait_until("the other has the new code", lambda: _has(agent, "the second"))
        await wait_until("it alone is told, and that it is done", lambda: _done(agent))


def _pid(running: object) -> int:
    return int(getattr(running, "pid", 0))


async def _has(agent: pentad.Agent, version: str) -> bool:
    return await agent.tools.execute("version", {}) == version


async def _done(agent: pentad.Agent) -> bool:
    told = await agent.inspection.plugins()
    return [each["state"] for each in told["workers"]] == ["done"]
