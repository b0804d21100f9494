"""SIGTERM while Redis does not serve: nothing can be handed back, so nobody waits for it, and nothing is lost."""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clients.line import Line
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply
from tests.support.processes.crew import FIVE, Crew, crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.processes.hurried import hurried
from tests.support.processes.system import Process
from tests.support.redis.bus_client import Bus, durable, twice
from tests.support.redis.redis_server import RedisServer
from tests.support.slow import rarely
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

SOON_S = 20.0
"""Seconds from the signal to the end of every process: one or two, and more where the machine is busy."""
ALL = {"gateway": 1, **FIVE}
Outage = tuple[Callable[[RedisServer], None], Callable[[RedisServer], None]]
OUTAGES: dict[str, Outage] = {
    "full": (
        lambda server: _set(server, "maxmemory", "1"),
        lambda server: _set(server, "maxmemory", "0"),
    ),
    "down": (RedisServer.kill9, RedisServer.start),
    "silent": (RedisServer.pause, RedisServer.resume),
}


def _set(server: RedisServer, name: str, value: str) -> None:
    assert server.command("CONFIG", "SET", name, value).startswith(b"+OK")


async def ended(process: Process) -> int:
    assert process.running is not None
    return await asyncio.to_thread(process.running.wait, PATIENCE_S)


async def stop(team: Crew) -> tuple[dict[str, float], set[int]]:
    """Ask all to end; after how many seconds each was gone, and with what codes."""
    begun = time.monotonic()
    for process in team.processes:
        assert process.running is not None
        process.running.send_signal(signal.SIGTERM)
    took: dict[str, float] = {}

    async def watch(process: Process) -> int:
        code = await ended(process)
        took[process.name] = time.monotonic() - begun
        return code

    return took, set(await asyncio.gather(*map(watch, team.processes)))


@pytest.mark.parametrize("kind", rarely(OUTAGES, "down"))
async def test_what_holds_nothing_unsafe_stops_at_once_and_its_work_goes_on_later(tmp_path: Path, kind: str) -> None:
    gates, asked = Gates(tmp_path / "gates"), list[str]()
    never = asyncio.Event()

    def script(request: dict[str, object]) -> Reply:
        text = str(request["messages"])
        if "think" in text and not asked:
            asked.append(text)
            return Reply(text="never said", chunks=3, wait=never, wait_after=2)
        return planned(request)

    begin, end = OUTAGES[kind]
    settings = gates.environment | {"PENTAD_GRACE_S": "1"}
    async with (
        RedisServer(aof="always", config={"maxmemory-policy": "noeviction"}) as server,
        ScriptedModel(script, record=False) as model,
        Bus(server.url) as bus,
    ):
        settings |= {"LLM_BASE_URL": model.base_url}
        async with crew(server.url, tmp_path / "one", ALL, **settings) as team:
            async with Line(team.named("gateway")[0].url, "s-line") as line:
                await line.say("hello", "m1")
                await line.until("task_end")
                await bus.send("think", "thinking")
                await bus.send(plan([("gate_pure", {"gate": "all", "tag": "t"})]), "working")
                await bus.send(plan([("gate_pure", {"gate": "soon", "tag": "e"})]), "telling")
                await wait_until("the model call", lambda: asked)
                await wait_until("the tools to run", lambda: len(gates.ledger()) == 2)
                await asyncio.to_thread(begin, server)
                gates.open("soon")  # its result cannot be written
                await wait_until("the tool to end", lambda: gates.ledger("end"))
                took, codes = await stop(team)
            left = team.left_behind()
        await asyncio.to_thread(end, server)
        gates.open("all")
        async with crew(server.url, tmp_path / "two", FIVE, **settings):
            for session in ("thinking", "working", "telling"):
                [last] = await bus.until(session, "task_end")
                assert last["status"] == "completed"
                assert twice(durable(await bus.events(session))) == []
    print(f"\nRedis {kind}:", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in sorted(took.items())))
    assert (codes, left) == ({0}, [])
    assert max(took.values()) < SOON_S


def tries(team: Crew) -> int:
    """How often a result was to be written in vain: it needs the server's clock, when that was not read lately."""
    log = team.log_of("tool-worker")
    return sum(log.count(f"{what} waits for Redis") for what in ("tool result", "clock"))


async def test_the_result_of_an_unsafe_call_waits_for_redis(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    counts = {"router": 1, "task-runner": 1, "tool-worker": 1}
    async with (
        RedisServer(aof="always") as server,
        ScriptedModel(planned) as model,
        crew(
            server.url,
            tmp_path / "run",
            counts,
            launcher=hurried("pentad.shared.telemetry:THROTTLE_S=0.5"),
            LLM_BASE_URL=model.base_url,
            **gates.environment,
        ) as team,
        Bus(server.url) as bus,
    ):
        await bus.send(plan([("gate_unsafe", {"gate": "all", "tag": "u"})]), "s1")
        await wait_until("the tool to run", gates.ledger)
        await asyncio.to_thread(server.kill9)
        gates.open("all")
        await wait_until("the tool to end", lambda: gates.ledger("end"))
        await wait_until("its result to be refused", lambda: tries(team) > 0)
        [holder] = team.named("tool-worker")
        assert holder.running is not None
        holder.running.send_signal(signal.SIGTERM)
        before = tries(team)
        await wait_until("it to be tried on", lambda: tries(team) > before + 1)
        await asyncio.to_thread(server.start)
        [result] = await bus.until("s1", "tool_result")
        assert (result["result"], await ended(holder)) == ("passed u", 0)
