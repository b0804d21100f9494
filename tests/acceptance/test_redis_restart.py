"""Redis goes and comes back, is full, or is emptied: everything goes on by itself, and nothing confirmed is lost."""

import asyncio
import json
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from tests.support.clients.line import Line
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply
from tests.support.processes.crew import FIVE, crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus, Event, durable, twice
from tests.support.redis.redis_server import Aof, RedisServer
from tests.support.slow import rarely
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

BACK_S = 4.5
"""Seconds from Redis's return to the next committed event of the tasks that waited for it: less than one as a rule, and
of most less than the five that FastStream would sleep, on a busy machine too."""
EACH = 5
ALL = {"gateway": 1, **FIVE}
AOF_FOLDER = "appendonlydir"
TURN = {"message_routed": 1, "task_start": 1, "message": 1, "task_end": 1}


class Work:
    """Tasks in every state in which Redis may leave them: the model answers, a tool runs, a message was just taken."""

    def __init__(self, bus: Bus, gates: Gates) -> None:
        self.bus, self._gates = bus, gates
        self.answer = asyncio.Event()
        self.asked = 0
        self.thinking = [f"thinking-{n}" for n in range(EACH)]
        self.working = [f"working-{n}" for n in range(EACH)]
        self.fresh = [f"fresh-{n}" for n in range(EACH)]

    def script(self, request: dict[str, Any]) -> Reply:
        """The model: holds back its answers to the thinking tasks."""
        if request["messages"][-1]["content"] != "think":
            return planned(request)
        self.asked += 1
        return Reply(text="thought", chunks=3, wait=self.answer, wait_after=2)

    async def begin(self) -> None:
        """Bring the tasks into the middle of their work, and send messages that nobody has looked at yet."""
        for session in self.thinking:
            await self.bus.send("think", session)
        for session in self.working:
            await self.bus.send(plan([("gate_pure", {"gate": "all", "tag": session})]), session)
        await wait_until("the model calls", lambda: self.asked == EACH)
        await wait_until("the tools to run", lambda: len(self._gates.ledger()) == EACH)
        for session in self.fresh:
            await self.bus.send(plan([("echo", {"text": "hello"})]), session)

    async def end_without_redis(self) -> None:
        """While Redis is away the model answers and the tools end."""
        self.answer.set()
        self._gates.open("all")
        await wait_until("the tools to end", lambda: len(self._gates.ledger("end")) == EACH)

    async def check(self, seconds: float = PATIENCE_S) -> dict[str, list[Event]]:
        """All end, each durable event is there once; returns the events of every session."""
        everyone = [*self.thinking, *self.working, *self.fresh]
        await self.bus.until_last(everyone, "task_end", seconds)
        events = {session: await self.bus.events(session) for session in everyone}
        for session, told in events.items():
            calls = {} if session in self.thinking else {"tool_call": 1, "tool_result": 1}
            assert Counter(e["type"] for e in durable(told)) == TURN | calls, session
            assert twice(told) == []
            assert told[-1]["status"] == "completed"
        return events


async def until_back(work: Work, killed_ms: int, answered_ms: int) -> tuple[int, float]:
    """How many sessions had something to wait for; seconds from Redis's answer until half have got something."""
    events = await work.check()
    firsts = [
        min(later) for told in events.values() if (later := [m for e in durable(told) if (m := _at(e)) > killed_ms])
    ]
    return len(firsts), (median_low(firsts) - answered_ms) / 1000


def _now() -> int:
    return int(time.time() * 1000)


def _at(event: Event) -> int:
    return int(event["id"].split("-")[0])


@pytest.mark.parametrize(("aof", "away_s"), rarely([("always", 3.0), ("everysec", 0.5)], ("always", 3.0)))
async def test_a_killed_redis_is_waited_for_and_work_goes_on(tmp_path: Path, aof: Aof, away_s: float) -> None:
    gates = Gates(tmp_path / "gates")
    async with RedisServer(aof=aof) as server, Bus(server.url) as bus:
        work = Work(bus, gates)
        async with (
            ScriptedModel(work.script, record=False) as model,
            crew(server.url, tmp_path / "run", LLM_BASE_URL=model.base_url, **gates.environment) as team,
        ):
            before = team.pids()
            await work.begin()
            server.kill9()
            gone = _now()
            await work.end_without_redis()
            await asyncio.sleep(max(0.0, gone / 1000 + away_s - time.time()))  # until back-offs are at their longest
            server.start()
            waited, back = await until_back(work, gone, _now())
            assert team.pids() == before
    print(f"\nappendfsync {aof}: Redis away for {away_s} s; half of {waited} tasks went on within {back:.2f} s")
    assert waited >= 2 * EACH
    assert back < BACK_S


@pytest.mark.slow
async def test_a_full_redis_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    async with RedisServer(config={"maxmemory-policy": "noeviction"}) as server, Bus(server.url) as bus:
        work = Work(bus, gates)
        async with (
            ScriptedModel(work.script, record=False) as model,
            crew(
                server.url, tmp_path / "run", LLM_BASE_URL=model.base_url, PENTAD_GRACE_S="1", **gates.environment
            ) as team,
        ):
            before = team.pids()
            await work.begin()
            await bus.redis.config_set("maxmemory", 1)
            with pytest.raises(OutOfMemoryError):
                await bus.send("too much", "refused")
            await work.end_without_redis()
            await wait_until("commits to be refused", lambda: "commit waits for Redis" in team.log_of("task-runner"))
            await bus.redis.config_set("maxmemory", 0)
            events = await work.check()
            tasks = [told[-1]["task_id"] for told in events.values()]
            for task in tasks:
                await wait_until("the record", partial(_archived, tmp_path / "run", task))
            assert team.pids() == before
            assert await bus.events("refused") == []
    print(f"\nRedis was full: {len(events)} tasks ended and were archived once it was not")


def _archived(directory: Path, task: str) -> bool:
    return (directory / "records" / "default" / f"{task}.json").exists()


async def test_after_a_flush_the_groups_are_made_again_and_the_next_message_is_served(tmp_path: Path) -> None:
    async with RedisServer() as server, crew(server.url, tmp_path / "run") as team, Bus(server.url) as bus:
        before = team.pids()
        await converse(bus, "before")
        await bus.redis.flushall()
        begun = time.monotonic()
        await converse(bus, "after")
        took = time.monotonic() - begun
        assert (await bus.answer(await bus.ask_to_embed(["a text"], "after")))["error"] is None
        assert team.pids() == before
    print(f"\nserved {took:.2f} s after FLUSHALL")


async def test_a_redis_that_lost_its_tail_is_noticed_and_clients_are_told(tmp_path: Path) -> None:
    async with (
        RedisServer(aof="everysec") as server,
        crew(server.url, tmp_path / "run", ALL) as team,
        Bus(server.url) as bus,
    ):
        [gateway] = team.named("gateway")
        async with Line(gateway.url, "s1") as line, Line(gateway.url, "s2") as other:
            await line.say("what is 6*7?", "kept")
            await other.say("what is 6*7?", "other")
            await line.until("task_end")
            await other.until("task_end")
            earlier = tmp_path / "earlier"
            shutil.copytree(server.directory / AOF_FOLDER, earlier)
            await line.say("what is 2**10?", "lost")
            await bus.send("what is 2**10?", "s2")
            await line.until("task_end", count=2)
            await other.until("task_end", count=2)
            beyond = other.cursor
            lose_tail(server, earlier)
            told = await line.until("error", lambda f: f.get("message_id") == "lost")
            async with Line(gateway.url, "s2", after=beyond) as late:
                expired = await late.until("error")
                snapshot = await late.until("snapshot")
            await line.say("what is 2**10?", "lost")
            result = await line.until("tool_result", lambda f: f["result"] == "1024", count=2)
    assert told["code"] == "internal"
    assert expired["code"] == "cursor_expired"
    assert "42" in json.dumps(snapshot["messages"])
    assert "1024" not in json.dumps(snapshot["messages"])
    assert result["tool"] == "calculator"
    print(
        "\na cursor of the lost tail got cursor_expired and a snapshot; the lost message an error, and was served again"
    )


def lose_tail(server: RedisServer, earlier: Path) -> None:
    """Kill Redis, put an earlier copy of its append-only file in place, and start it."""
    server.kill9()
    shutil.rmtree(server.directory / AOF_FOLDER)
    shutil.copytree(earlier, server.directory / AOF_FOLDER)
    server.start()


async def converse(bus: Bus, session: str) -> None:
    await bus.send("what is 6*7?", session)
    [result] = await bus.until(session, "tool_result")
    assert result["result"] == "42"
    await bus.until(session, "task_end")
