"""What a service costs until it consumes: CPU from its start to its first entry taken and handled, each of the six."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis.asyncio import Redis

from pentad.contracts.commands import EmbedCommand, InboundMessage, ToolCallCommand, WakeUp
from pentad.contracts.envelope import Contract
from pentad.contracts.streams import ARCHIVE, EMBED, INBOUND, SERVICES, TASK_WAKE, TOOL_CALLS
from pentad.contracts.tools import Effect
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.mail import UserMail
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from tests.bench.common import Effort, Row, cpu_seconds, family, make_group, middle
from tests.bench.processes import model, module
from tests.bench.websocket import Socket
from tests.support.ports import free_port
from tests.support.processes.system import MODULES, Process, System
from tests.support.redis.redis_server import RedisServer

_LIMIT_S = 1.0
_TASK = TaskKeys(0, "default", "t0-1")
_PATIENCE_S = 20.0
_SHARED: dict[str, Any] = {
    "event_id": "e-1",
    "at": "2026-01-01T00:00:00.000Z",
    "tenant_id": "default",
    "session_id": "s1",
}
_FIRST: dict[str, tuple[str, str, Contract]] = {
    "router": (INBOUND.key(), "router", InboundMessage(content="hello", session_id="s1")),
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
"""For each service its stream, its group, and an entry that it can handle. The task-runner has a whole step to make."""


async def _state(redis: Any, stream: str, group: str) -> tuple[bool, bool]:
    """Whether the group's first entry has been taken, and whether it has been handled."""
    for found in await redis.xinfo_groups(stream):
        if found["name"] == group.encode():
            taken = bool(found["entries-read"])
            return taken, taken and not found["pending"]
    return False, False


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
        system = System(redis.url, Path(directory), {}, environment, warm=False)
        port = free_port()
        process = Process(name, port, [sys.executable, "-m", MODULES[name], "--port", str(port)])
        system.processes.append(process)
        system.start(process)
        try:
            yield process
        finally:
            await asyncio.to_thread(system.stop)


async def _work_for(name: str, redis: Any, url: str) -> tuple[str, str]:
    """Leave a service its first work; returns the stream and group by which it is seen to be done."""
    if name == "task-runner":
        store = Store(url)
        await store.call("HSET", _TASK.header, "status", "pending", "session", "s1", "goal", "hello")
        mail = UserMail(message=InboundMessage(content="hello", message_id="m1"), entry_id="1-0", at=_SHARED["at"])
        await Actors(store, "bench", 2000).post(_TASK, "user", mail.to_json(), ("pending",))
        await store.close()
        return TASK_WAKE.key(0), "task-runner"
    stream, group, first = _FIRST[name]
    await redis.xadd(stream, {"data": first.to_json()})
    return stream, group


async def _service(name: str, model_url: str) -> tuple[float, float]:
    """CPU until the first entry is taken, and until it is handled."""
    environment = {"LLM_BASE_URL": model_url, "LLM_MODEL_ID": "scripted"}
    async with RedisServer() as server:
        redis: Any = Redis.from_url(server.url)
        stream, group = ("", "") if name == "gateway" else await _work_for(name, redis, server.url)
        if stream:
            await make_group(redis, stream, group)

        async def taken() -> bool:
            return (await _state(redis, stream, group))[0]

        async def handled() -> bool:
            return (await _state(redis, stream, group))[1]

        async with _started(server, name, environment) as process:
            if name == "gateway":
                spent = (await _cpu_until(process, partial(_accepts, process)),) * 2
            else:
                spent = await _cpu_until(process, taken), await _cpu_until(process, handled)
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
    async with model("--say", "20") as (_, model_url):
        found = [await asyncio.gather(*(_service(name, model_url) for name in SERVICES)) for _ in range(rounds)]
    for name, spent in zip(SERVICES, zip(*found, strict=True), strict=True):
        taken, handled = (middle(column) for column in zip(*spent, strict=True))
        rows.append(
            Row(
                f"start: {name} consumes after",
                f"{taken:.2f} s CPU (its first work is done after {handled:.2f})",
                f"bare redis-py consumer {floor:.2f} s",
                "within 1 s CPU",
                taken <= _LIMIT_S,
                {"cpu_s": taken, "first_work_s": handled, "floor_s": floor},
            )
        )
    return rows
