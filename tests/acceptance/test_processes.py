"""The script of docs/run-as-processes.md runs all six services, starts again what dies, and stops them in order."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import pentad
from pentad.contracts.streams import SERVICES
from tests.support.ports import free_port
from tests.support.processes.up import ROOT
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import in_time, wait_until

pytestmark = pytest.mark.acceptance


@asynccontextmanager
async def running(folder: Path, redis_url: str, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The script at work in a folder, with two routers; whatever is left of it is killed at the end."""
    (folder / "pentad").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pentad.cli.main "$@"\n')
    (folder / "pentad").chmod(0o755)
    (folder / "pentad.env").write_text(f"REDIS_URL={redis_url}\nPYTHONPATH={shlex.quote(str(ROOT))}\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PENTAD": "./pentad", "ROUTERS": "2"}
    with (folder / "stderr").open("wb") as stderr:
        script = await asyncio.create_subprocess_exec(
            "/bin/sh",
            ROOT / "docs" / "processes" / "run.sh",
            cwd=folder,
            env=environment | {"GATEWAY_PORT": str(port)},
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield script
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        await script.wait()


def ids(folder: Path) -> dict[str, int]:
    """Ids of the running processes by name."""
    found = {path.stem: path.read_text().strip() for path in (folder / "run").glob("*.pid")}
    return {name: int(text) for name, text in found.items() if text}


async def answers(agent: pentad.Agent, question: str) -> bool:
    with suppress(pentad.ClientError):
        return "42" in await agent.ask(question)
    return False


async def test_the_six_services_answer_come_back_when_killed_and_end_when_told(tmp_path: Path) -> None:
    port = free_port()
    async with (
        RedisServer() as redis,
        running(tmp_path, redis.url, port) as script,
        pentad.connect(f"http://127.0.0.1:{port}") as agent,
    ):
        await wait_until("an answer", lambda: answers(agent, "what is 6*7?"))
        before = ids(tmp_path)
        assert set(before) == {*(f"{name}-1" for name in SERVICES), "router-2"}
        killed = {"router-1", "task-runner-1"}
        for name in killed:
            os.kill(before[name], signal.SIGKILL)
        await wait_until("both to come back", lambda: _again(before, ids(tmp_path)) == killed)
        await wait_until("an answer", lambda: answers(agent, "what is 6*7?"))
        assert "router-1 has ended (137), see logs/router-1.log" in (tmp_path / "stderr").read_text()
        last = ids(tmp_path)
        script.send_signal(signal.SIGTERM)
        async with in_time():
            assert await script.wait() == 0
        assert [name for name, pid in last.items() if _lives(pid)] == []
        assert ids(tmp_path) == {}


def _again(before: dict[str, int], now: dict[str, int]) -> set[str]:
    """Names of the processes that run again under another id."""
    return {name for name in before if now.get(name) not in (None, before[name])}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
