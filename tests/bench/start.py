"""What a service costs until it consumes: CPU from its start to its first entry handled, each of the six."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis.asyncio import Redis

from contracts.commands import EmbedCommand, InboundMessage, ToolCallCommand, WakeUp
from contracts.envelope import Contract
from contracts.streams import ARCHIVE, EMBED, INBOUND, TASK_WAKE, TOOL_CALLS
from contracts.tools import Effect
from shared.bus.broker import ensure_group
from tests.bench.common import Effort, Row, cpu_seconds, family, middle
from tests.bench.processes import module
from tests.bench.websocket import Socket
from tests.support.redis_server import RedisServer, free_port
from tests.support.system import MODULES, Process, System

_LIMIT_S = 1.0
_PATIENCE_S = 20.0
_SHARED: dict[str, Any] = {
    "event_id": "e-1",
    "at": "2026-01-01T00:00:00.000Z",
    "tenant_id": "default",
    "session_id": "s1",
}
_FIRST: dict[str, tuple[str, str, Contract]] = {
    "router": (INBOUND.key(), "router", InboundMessage(content="hello", session_id="s1")),
    "task-runner": (TASK_WAKE.key(0), "task-runner", WakeUp(actor="default/t0-nobody")),
    "tool-worker": (
        TOOL_CALLS.key(0, queue="default"),
        "tool-worker",
        ToolCallCommand(
            **_SHARED, task_id="t0-1", tool_call_id="c0-1", step=1, tool="echo", args={}, effect=Effect.PURE, timeout=9
        ),
    ),
    "embedding": (EMBED.key(0), "embedding", EmbedCommand(**_SHARED, texts=["hello"], reply_to="pentad:{0}:reply")),
    "archiver": (ARCHIVE.key(0), "archiver", WakeUp(actor="default/t0-nobody")),
}
"""For each service its stream, its group, and an entry that it can handle."""


async def _handled(redis: Any, stream: str, group: str) -> bool:
    for found in await redis.xinfo_groups(stream):
        if found["name"] == group.encode():
            return bool(found["entries-read"] and not found["pending"])
    return False


async def _cpu_until(process: Process, there: Callable[[], Awaitable[bool]]) -> float:
    """CPU of the process and its children when something is so for the first time."""
    assert process.running is not None
    limit = asyncio.get_running_loop().time() + _PATIENCE_S
    while not await there():
        if asyncio.get_running_loop().time() > limit or process.running.poll() is not None:
            raise RuntimeError(f"{process.name} did not consume")
        await asyncio.sleep(0.005)
    return sum(cpu_seconds(pid) for pid in family(process.running.pid))


async def _accepts(process: Process) -> bool:
    try:
        socket = await Socket.open(process.url, "s1")
    except OSError:
        return False
    socket.close()
    return True


@asynccontextmanager
async def _started(redis: RedisServer, name: str, environment: dict[str, str]) -> AsyncIterator[Process]:
    with TemporaryDirectory(prefix="pentad-bench-") as directory:
        system = System(redis.url, Path(directory), {}, environment)
        port = free_port()
        process = Process(name, port, [sys.executable, "-m", MODULES[name], "--port", str(port)])
        system.processes.append(process)
        system.start(process)
        try:
            yield process
        finally:
            await asyncio.to_thread(system.stop)


async def _service(name: str) -> float:
    environment = {"LLM_BASE_URL": "http://127.0.0.1:9/v1", "LLM_MODEL_ID": "scripted"}
    async with RedisServer() as server:
        redis: Any = Redis.from_url(server.url)
        async with _started(server, name, environment) as process:
            if name == "gateway":
                return await _cpu_until(process, lambda: _accepts(process))
            stream, group, first = _FIRST[name]
            await ensure_group(redis, stream, group)
            await redis.xadd(stream, {"data": first.to_json()})
            spent = await _cpu_until(process, lambda: _handled(redis, stream, group))
        await redis.aclose()
        return spent


async def _floor() -> float:
    """The same for a bare redis-py consumer on uvloop."""
    async with RedisServer() as server, module("tests.bench.bare_consumer", server.url) as (pid, _):
        return cpu_seconds(pid)


async def run(effort: Effort) -> list[Row]:
    """One row for each service."""
    rounds = effort(3, 1)
    floor = middle([await _floor() for _ in range(rounds)])
    rows = []
    for name in ("gateway", *_FIRST):
        spent = middle([await _service(name) for _ in range(rounds)])
        rows.append(
            Row(
                f"start: {name} consumes after",
                f"{spent:.2f} s CPU",
                f"bare redis-py consumer {floor:.2f} s",
                "within 1 s CPU",
                spent <= _LIMIT_S,
                {"cpu_s": spent, "floor_s": floor},
            )
        )
    return rows
