"""Processes beside the bench: peers, the scripted model, and a whole system with its CPU by service."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_port
from tests.support.processes.system import MODULES, ROOT, Process, System
from tests.support.redis.redis_server import RedisServer

_START_S = 20.0


@asynccontextmanager
async def module(name: str, *args: str) -> AsyncIterator[tuple[int, str]]:
    """``python -m NAME ARGS`` until the end of the block: its process id, and the line with which it was ready."""
    command = [sys.executable, "-m", name, *args]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        if not line:
            raise RuntimeError(f"{name} ended before it was ready")
        yield process.pid, line.decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Running:
    """A system under measurement."""

    url: str
    """The gateway's address."""
    redis_url: str
    model_url: str
    ours: Mapping[str, Sequence[int]]
    """Process ids by service; what counts as ours."""
    beside: Mapping[str, Sequence[int]]
    """Redis and the model server."""

    @property
    def everyone(self) -> dict[str, Sequence[int]]:
        """All process ids by name."""
        return {**self.ours, **self.beside}


def _environment(model_url: str, more: Mapping[str, str]) -> dict[str, str]:
    return {"LLM_BASE_URL": model_url, "LLM_MODEL_ID": "scripted", **more}


def _pids(processes: Sequence[Process]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for process in processes:
        assert process.running is not None
        found.setdefault(process.name, []).append(process.running.pid)
    return found


@asynccontextmanager
async def model(*args: str, name: str = "tests.support.models.model_server") -> AsyncIterator[tuple[int, str]]:
    """A model server: its process id and its address."""
    async with module(name, *args) as (pid, line):
        yield pid, line.removeprefix("ready on ")


@asynccontextmanager
async def six(
    model_pid: int, model_url: str, services: Sequence[str] = tuple(MODULES), **environment: str
) -> AsyncIterator[Running]:
    """The services as one process each, with a Redis under ``everysec``."""
    with TemporaryDirectory(prefix="pentad-bench-") as directory:
        async with RedisServer(aof="everysec") as redis:
            counts = dict.fromkeys(services, 1)
            system = System(redis.url, Path(directory), counts, _environment(model_url, environment), warm=False)
            async with system:
                gateways = system.named("gateway")
                beside = {"redis": [redis.pid], "model": [model_pid]}
                url = gateways[0].url if gateways else ""
                yield Running(url, redis.url, model_url, _pids(system.processes), beside)


@asynccontextmanager
async def up(model_pid: int, model_url: str, **environment: str) -> AsyncIterator[Running]:
    """``pentad up`` on a Redis of its own under ``everysec``."""
    with TemporaryDirectory(prefix="pentad-bench-") as directory:
        async with RedisServer(aof="everysec") as redis:
            port = free_port()
            command = [sys.executable, "-m", "pentad.cli.main", "up", "--port", str(port)]
            all_six = Process("up", port, command)
            system = System(
                redis.url, Path(directory), {}, _environment(model_url, environment), processes=[all_six], warm=False
            )
            async with system:
                beside = {"redis": [redis.pid], "model": [model_pid]}
                yield Running(all_six.url, redis.url, model_url, _pids([all_six]), beside)
