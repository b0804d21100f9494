"""Tasks of all ways to work at once, while a tenth of the model's answers fail and processes are killed."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.crew import LONG
from tests.support.processes.system import System
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

TASKS, KILLS = (200, 20) if LONG else (24, 4)
COUNTS = {"gateway": 1, "router": 1, "task-runner": 2, "tool-worker": 2, "archiver": 1}
KILLED = ("task-runner", "tool-worker", "router", "archiver")
BOSS = {"name": "boss", "system_prompt": "You are boss.", "tools": ["agent:simple"]}
FAN: dict[str, Any] = {
    "name": "fan",
    "timeout": 600,
    "nodes": [
        {"key": "both", "kind": "parallel", "branches": ["left", "right"], "join": "all", "then": "each"},
        {"key": "left", "kind": "llm", "system_prompt": "You are left.", "tools": ["calculator"]},
        {"key": "right", "kind": "tool", "tool": "calculator", "args": {"expression": "6 * 7"}},
        {"key": "each", "kind": "map", "over": "state.items", "node": "item", "max_parallel": 2, "then": "last"},
        {"key": "item", "kind": "llm", "system_prompt": "You are item.", "tools": []},
        {"key": "last", "kind": "llm", "system_prompt": "You are last.", "tools": []},
    ],
    "edges": [],
    "entry": "both",
    "ends": ["last"],
}
KINDS = ("simple", "function_call", "react", "unified", "plan_solve", "memory", "boss", "fan")
NUMBER = re.compile(r"task number (\d+)")


class Model:
    """What it says follows from what it is asked; one of ten questions it fails to answer."""

    def __init__(self) -> None:
        self._random = Random(27)
        self.failed = 0
        self.wrong: list[str] = []

    def __call__(self, request: dict[str, Any]) -> Reply:
        self.wrong += ill_formed(request["messages"])
        if self._random.random() < 0.1:
            self.failed += 1
            return self._random.choice(
                [fail(503), fail(429, retry_after=0.05), say("half of an answer", chunks=4, cut_after=2)]
            )
        return _answer(request["messages"], {tool["function"]["name"] for tool in request.get("tools") or ()})


def _answer(messages: list[dict[str, Any]], tools: set[str]) -> Reply:
    system, *said = messages
    prompt, last = system["content"], said[-1]
    number = NUMBER.findall(json.dumps(said))[-1]
    final = f"answer of {number}"
    if "You plan how" in prompt:
        return say('{"steps": ["count"]}')
    if "You carry out" in prompt:
        done = {"step": "count", "result": number, "ok": True, "left": 0}
        return say(json.dumps(done)) if last["role"] == "tool" else _count(number)
    if "Thought:" in prompt:
        if str(last["content"]).startswith("Observation"):
            return say(f"Thought: I have it.\nFinal Answer: {final}")
        return say(f'Thought: I count.\nAction: calculator\nAction Input: {{"expression": "{number} * 2"}}')
    if last["role"] == "tool" or not tools or prompt.startswith("You are last"):
        return say(final, chunks=3)
    if "agent_simple" in tools:
        return call(("agent_simple", {"task": f"task number {number}"}))
    if "memory_search" in tools and "calculator" not in tools:
        return call(("memory_search", {"query": f"task number {number}"}))
    return _count(number)


def _count(number: str) -> Reply:
    return call(("calculator", {"expression": f"{number} * 2"}))


async def test_tasks_of_all_strategies_end_right_while_models_fail_and_processes_die(tmp_path: Path) -> None:
    """Promise: each task ends once with its own answer, each call has one result, and prompts are well formed."""
    model, random = Model(), Random(1)
    (file := tmp_path / "ways.json").write_text(json.dumps({"instructions": [BOSS], "graphs": [FAN]}))
    async with RedisServer() as redis, ScriptedModel(model, record=False) as server, Bus(redis.url) as bus:
        environment = {"LLM_BASE_URL": server.base_url, "PENTAD_LEASE_S": "0.6", "PENTAD_INSTRUCTIONS": str(file)}
        environment |= {"PENTAD_EXTRACT": "never", "PENTAD_RETRIEVE": "never", "PENTAD_RECALL_TOKENS": "0"}
        async with System(redis.url, tmp_path, COUNTS, environment) as system:
            sessions = [f"mixed-{n}" for n in range(TASKS)]
            for n, session in enumerate(sessions):
                way = KINDS[n % len(KINDS)]
                state = {"state": {"items": [1, 2, 3]}} if way == "fan" else {}
                await bus.send(f"task number {n}", session, instruction=way, **state)

            async def ended() -> int:
                return sum([len(await _roots(bus, session, "task_end")) for session in sessions])

            for kill in range(KILLS):
                await wait_until("more tasks to end", partial(_at_least, ended, TASKS * (kill + 1) // (KILLS + 1)))
                system.restart(random.choice(system.named(random.choice(KILLED))))
            await wait_until("all tasks to end", partial(_at_least, ended, TASKS))
            faults = [fault for n, session in enumerate(sessions) for fault in await _faults(bus, n, session)]
            print(f"{TASKS} tasks, {KILLS} kills, {model.failed} failed answers, {len(faults)} faults")
            assert faults == []
            assert model.wrong == []
            assert model.failed > TASKS / 10


async def _at_least(ended: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await ended() >= wanted


async def _roots(bus: Bus, session: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in await bus.events(session, kind) if not event.get("parent_task_id")]


async def _faults(bus: Bus, number: int, session: str) -> list[str]:
    """What is wrong with a session of one task."""
    who = f"{session} ({KINDS[number % len(KINDS)]})"
    ends, said = await _roots(bus, session, "task_end"), await _roots(bus, session, "message")
    faults = []
    if [end["status"] for end in ends] != ["completed"]:
        faults.append(f"{who} ended as {[(end['status'], end.get('detail')) for end in ends]}")
    if not said or said[-1]["content"] != f"answer of {number}":
        faults.append(f"{who} said {[each['content'] for each in said]}")
    calls = Counter(event["tool_call_id"] for event in await bus.events(session, "tool_call"))
    results = Counter(event["tool_call_id"] for event in await bus.events(session, "tool_result"))
    if calls != results or set(calls.values()) - {1}:
        faults.append(f"{who} has calls {calls} and results {results}")
    started = Counter(event["task_id"] for event in await bus.events(session, "task_start"))
    over = Counter(event["task_id"] for event in await bus.events(session, "task_end"))
    if started != over or set(over.values()) - {1}:
        faults.append(f"{who} has started {started} and ended {over}")
    return faults
